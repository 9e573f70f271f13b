"""A browser is found where there is one, else had from the distribution; else one line says what to do."""

import pytest

import chromium
import system_packages
from system_packages import MissingPrerequisiteError


@pytest.fixture(autouse=True)
def no_browser(monkeypatch):
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    monkeypatch.setattr(chromium.shutil, "which", lambda program: None)


def unpacking(monkeypatch, *libraries):
    """Stand in for apt: unpacking gives these files."""

    def unpack(packages, prefix):
        for library in libraries:
            (prefix / library).parent.mkdir(parents=True, exist_ok=True)
            (prefix / library).touch()
        return len(packages)

    monkeypatch.setattr(system_packages, "unpack", unpack)


def test_a_browser_that_is_named_is_taken_before_all_others(monkeypatch, tmp_path):
    monkeypatch.setattr(chromium.shutil, "which", lambda program: f"/usr/bin/{program}")
    assert chromium.find(tmp_path) == "/usr/bin/chromium"
    monkeypatch.setenv(chromium.VARIABLE, "/opt/browser")
    assert chromium.find(tmp_path) == "/opt/browser"


def a_program(path, status):
    path.write_text(f"#!/bin/sh\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


def test_any_of_its_kind_on_the_path_will_do(monkeypatch, tmp_path):
    program = a_program(tmp_path / "chrome", 0)
    monkeypatch.setattr(chromium.shutil, "which", lambda name: program if name == "google-chrome" else None)
    assert chromium.find(tmp_path) == program
    assert chromium.provide(tmp_path) == f"browser: {program}"


def test_one_that_does_not_start_is_none(monkeypatch, tmp_path):
    program = a_program(tmp_path / "wants-a-snap", 1)
    monkeypatch.setattr(chromium.shutil, "which", lambda name: program if name == "chromium-browser" else None)
    monkeypatch.setattr(system_packages, "root_command", lambda: None)
    unpacking(monkeypatch, "usr/lib/libone.so")
    assert "unpacked" in chromium.provide(tmp_path)
    assert chromium.find(tmp_path) == str(tmp_path / "browser/start")


def test_without_root_it_is_unpacked_and_started_with_its_own_libraries(monkeypatch, tmp_path):
    monkeypatch.setattr(system_packages, "root_command", lambda: None)
    unpacking(monkeypatch, "usr/lib/triplet/libone.so.1", "usr/lib/triplet/sound/libtwo.so", "usr/lib/plain.so")
    assert chromium.find(tmp_path) is None
    assert "unpacked" in chromium.provide(tmp_path)
    start = tmp_path / "browser/start"
    assert "for folder in usr/lib/triplet usr/lib/triplet/sound; do" in start.read_text()
    assert start.stat().st_mode & 0o111
    assert chromium.find(tmp_path) == str(start)


def test_as_root_the_package_is_installed(monkeypatch, tmp_path):
    installed = []
    monkeypatch.setattr(system_packages, "root_command", list)
    monkeypatch.setattr(system_packages, "install", lambda packages, as_root: installed.extend(packages))
    assert chromium.provide(tmp_path) == "browser: chromium installed"
    assert installed == ["chromium"]


def test_where_none_can_be_had_one_line_says_what_to_do(monkeypatch, capsys, tmp_path):
    def refuse(packages, prefix):
        raise MissingPrerequisiteError("apt cannot resolve chromium: no such package")

    monkeypatch.setattr(system_packages, "root_command", lambda: None)
    monkeypatch.setattr(system_packages, "unpack", refuse)
    monkeypatch.setattr(chromium, "BUILD", tmp_path)
    assert chromium.main() == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "browser: install Chromium or Chrome, or set MESHNET_TEST_BROWSER to the path of one: apt cannot resolve"
    )
    assert said.count("\n") == 1

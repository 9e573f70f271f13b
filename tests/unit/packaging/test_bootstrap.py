"""Bootstrap says in one line what must exist first, and touches nothing when it is up to date."""

import shutil

import pytest

import bootstrap
import system_packages
from system_packages import MissingPrerequisiteError

SIMULATED = """\
NOTE: This is only a simulation!
Inst libabsl-dev (20220623.1-1+deb12u2 Debian:12.9/stable [amd64])
Inst libc6 [2.36-9] (2.36-10 Debian:12.9/stable [amd64])
Inst libc-bin [2.36-9] (2.36-10 Debian:12.9/stable [amd64])
Inst libc-ares2 (1.18.1-3 Debian:12.9/stable [amd64])
Inst libgrpc++-dev (1.51.1-3+b1 Debian:12.9/stable [amd64])
Conf libabsl-dev (20220623.1-1+deb12u2 Debian:12.9/stable [amd64])
"""


def without(*programs):
    real = shutil.which
    return lambda name: None if name in programs else real(name) or f"/usr/bin/{name}"


def test_an_old_python_is_told_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 10, 13))
    assert bootstrap.main() == 2
    assert capsys.readouterr().err == "bootstrap: run it with Python 3.11 or newer; this is 3.10.13\n"


@pytest.mark.parametrize(
    ("absent", "has_venv", "line"),
    [
        (["c++"], True, "install these first, which needs root: c++"),
        (["make"], False, "install these first, which needs root: make python3-venv"),
        (["dpkg-query"], True, "this set-up works on Debian and Ubuntu only: dpkg-query is not on the path"),
    ],
)
def test_without_root_what_is_missing_is_named_and_nothing_is_changed(absent, has_venv, line, monkeypatch, tmp_path):
    monkeypatch.setattr(system_packages.shutil, "which", without(*absent))
    monkeypatch.setattr(system_packages, "root_command", lambda: None)
    monkeypatch.setattr(system_packages, "has_venv", lambda: has_venv)
    monkeypatch.setattr(system_packages, "_installed", lambda package: False)
    with pytest.raises(MissingPrerequisiteError) as caught:
        system_packages.provide(tmp_path)
    assert str(caught.value) == line
    assert not list(tmp_path.iterdir())


def test_nothing_is_run_when_every_package_is_there(monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise AssertionError(f"ran {arguments}")

    monkeypatch.setattr(system_packages.shutil, "which", without())
    monkeypatch.setattr(system_packages, "_installed", lambda package: True)
    monkeypatch.setattr(system_packages, "has_venv", lambda: True)
    monkeypatch.setattr(system_packages, "_run", refuse)
    assert system_packages.provide(tmp_path) == "system packages: none are missing"


def test_as_root_packages_are_installed_without_questions_or_recommendations(monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(system_packages.shutil, "which", without("patch"))
    monkeypatch.setattr(system_packages, "_installed", lambda package: package != "libgtest-dev")
    monkeypatch.setattr(system_packages, "has_venv", lambda: True)
    monkeypatch.setattr(system_packages, "root_command", list)
    monkeypatch.setattr(system_packages, "_run", lambda command, cwd=None: ran.append(command))
    assert system_packages.provide(tmp_path) == "system packages: 2 installed"
    assert ran[0][-1] == "update"
    assert ran[1][-5:] == ["install", "-y", "--no-install-recommends", "libgtest-dev", "patch"]


def test_apts_simulation_is_read_and_the_c_library_is_never_unpacked():
    found = system_packages._INSTALLED_BY_APT.findall(SIMULATED)
    assert found == [
        ("libabsl-dev", "20220623.1-1+deb12u2"),
        ("libc6", "2.36-10"),
        ("libc-bin", "2.36-10"),
        ("libc-ares2", "1.18.1-3"),
        ("libgrpc++-dev", "1.51.1-3+b1"),
    ]
    assert [name for name, _ in found if system_packages._NEVER_UNPACKED.match(name)] == ["libc6", "libc-bin"]


def test_any_change_of_what_is_installed_changes_the_stamp(monkeypatch, tmp_path):
    before = bootstrap._inputs_digest()
    changed = tmp_path / "constraints.txt"
    changed.write_text("something==1\n")
    monkeypatch.setattr(bootstrap, "CONSTRAINTS", changed)
    assert bootstrap._inputs_digest() != before


def test_links_to_libraries_that_the_machine_has_lead_to_them(tmp_path):
    prefix, root = tmp_path / "prefix", tmp_path / "root"
    unpacked, installed = prefix / "usr/lib/arch", root / "usr/lib/arch"
    for folder in (unpacked, installed):
        folder.mkdir(parents=True)
    (installed / "libabsl.so.1").write_text("installed")
    (installed / "libgrpc.so.1").write_text("another version")
    (unpacked / "libgrpc.so.1").write_text("unpacked")
    for name in ("absl", "grpc", "absent"):
        (unpacked / f"lib{name}.so").symlink_to(f"lib{name}.so.1")
    assert system_packages.complete_links(prefix, root) == 1
    assert (unpacked / "libabsl.so").read_text() == "installed"
    assert (unpacked / "libgrpc.so").read_text() == "unpacked"
    assert not (unpacked / "libabsent.so").exists()

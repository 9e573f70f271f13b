"""Qt's libraries: the list is what the wheels need, and each way to have them says which it was."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import qt_libraries
import system_packages

C_LIBRARY = re.compile(r"(lib(c|m|dl|rt|pthread|resolv)\.so\.\d|ld-linux.*|lib(gcc_s|stdc\+\+)\.so\.\d)")


def needed_by(library: Path) -> set[str]:
    command = ["readelf", "--dynamic", "--wide", str(library)]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", text))


def foreign_to_the_wheels(*plugins: str) -> set[str]:
    """Return what the modules that are used, and plugins, need and neither the wheels nor a compiler bring."""
    pyside, shiboken = (Path(find_spec(name).origin).parent for name in ("PySide6", "shiboken6"))
    brought = {path.name: path for folder in (pyside, shiboken) for path in folder.rglob("*.so*")}
    waiting = [pyside / f"Qt{part}.abi3.so" for part in ("Widgets", "Network", "Test")]
    waiting += [pyside / "Qt/plugins" / plugin for plugin in plugins]
    seen, foreign = set(waiting), set()
    while waiting:
        for name in needed_by(waiting.pop()):
            if name not in brought:
                foreign.add(name)
            elif brought[name] not in seen:
                seen.add(brought[name])
                waiting.append(brought[name])
    return {name for name in foreign if not C_LIBRARY.fullmatch(name)}


@pytest.mark.qt
def test_the_list_is_what_the_wheels_need_and_do_not_bring():
    assert foreign_to_the_wheels("platforms/libqoffscreen.so") == set(qt_libraries.LIBRARIES)


@pytest.mark.qt
def test_the_list_for_displays_is_what_their_plugins_need_beyond_that():
    platforms = [f"platforms/libq{name}.so" for name in ("offscreen", "xcb", "wayland-generic", "wayland-egl")]
    drawing = [f"xcbglintegrations/libqxcb-{name}-integration.so" for name in ("egl", "glx")]
    beyond = foreign_to_the_wheels(*platforms, *drawing) - set(qt_libraries.LIBRARIES)
    assert beyond == set(qt_libraries.DISPLAY_LIBRARIES)


def test_a_library_of_the_system_can_be_loaded_and_another_cannot():
    assert qt_libraries.can_load("libc.so.6")
    assert not qt_libraries.can_load("libnobody-has-this.so.9")


def without(*names):
    return lambda name: name not in names


def test_nothing_is_done_where_all_are_there(monkeypatch, tmp_path):
    monkeypatch.setattr(qt_libraries, "can_load", without())
    monkeypatch.setattr(system_packages, "root_command", lambda: pytest.fail("asked for root"))
    assert qt_libraries.provide(tmp_path) == "Qt's libraries: none are missing"
    assert qt_libraries.environment(tmp_path) == {}


def test_as_root_only_the_missing_packages_are_installed(monkeypatch, tmp_path):
    installed = []
    monkeypatch.setattr(qt_libraries, "can_load", without("libEGL.so.1", "libglib-2.0.so.0", "libgthread-2.0.so.0"))
    monkeypatch.setattr(system_packages, "root_command", list)
    monkeypatch.setattr(system_packages, "install", lambda packages, as_root: installed.append(packages))
    assert qt_libraries.provide(tmp_path) == "Qt's libraries: 2 packages installed"
    assert installed == [["libegl1", "libglib2.0-0"]]


def test_without_root_they_are_unpacked_once_and_found_by_the_environment(monkeypatch, tmp_path):
    unpacked = []

    def unpack(packages, prefix, leave_out):
        unpacked.append((packages, leave_out.match("libllvm15") is not None, leave_out.match("libegl1") is None))
        folder = prefix / "usr/lib/x"
        folder.mkdir(parents=True)
        (folder / "libEGL.so.1").touch()
        (folder / "libGL.so.1").symlink_to("libEGL.so.1")
        return 7

    monkeypatch.setattr(qt_libraries, "can_load", without("libEGL.so.1", "libGL.so.1"))
    monkeypatch.setattr(system_packages, "root_command", lambda: None)
    monkeypatch.setattr(system_packages, "unpack", unpack)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert qt_libraries.missing(tmp_path) == ["libegl1", "libgl1"]
    assert qt_libraries.provide(tmp_path) == "Qt's libraries: 7 packages unpacked into build/qt"
    assert qt_libraries.provide(tmp_path) == "Qt's libraries: none are missing"
    assert unpacked == [(["libegl1", "libgl1"], True, True)]
    assert qt_libraries.environment(tmp_path) == {"LD_LIBRARY_PATH": str(tmp_path / "qt/usr/lib/x")}
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    assert qt_libraries.environment(tmp_path) == {"LD_LIBRARY_PATH": f"/mine:{tmp_path / 'qt/usr/lib/x'}"}


def test_what_cannot_be_had_is_one_line_and_status_2(monkeypatch, capsys, tmp_path):
    def refuse(build):
        raise system_packages.MissingPrerequisiteError("apt cannot resolve libegl1")

    monkeypatch.setattr(qt_libraries, "BUILD", tmp_path)
    monkeypatch.setattr(qt_libraries, "provide", refuse)
    assert qt_libraries.main() == 2
    assert capsys.readouterr().err == "Qt's libraries: apt cannot resolve libegl1\n"


def test_a_library_found_through_the_environment_is_loaded_from_there(tmp_path, python_program):
    """The control: without the variable the linker does not find what was unpacked."""
    folder = tmp_path / "qt/usr/lib/x"
    folder.mkdir(parents=True)
    (tmp_path / "one.c").write_text("int one(void) { return 1; }\n")
    build = ["cc", "-shared", "-fPIC", "-o", str(folder / "libmeshnettest.so.1"), str(tmp_path / "one.c")]
    subprocess.run(build, check=True, timeout=60)
    load = [python_program, "-c", "import ctypes; ctypes.CDLL('libmeshnettest.so.1')"]
    for environment, is_found in ((qt_libraries.environment(tmp_path), True), ({}, False)):
        done = subprocess.run(load, env=environment, capture_output=True, timeout=60, check=False)
        assert (done.returncode == 0) is is_found

"""Where sockets lie: never where the kernel would not take them, and private where workers meet."""

from __future__ import annotations

import socket
import tempfile
from typing import TYPE_CHECKING

import pytest

from node_app.system.runtime_directory import LINK_NAME_CHARACTERS, local_links_directory, socket_path
from node_app.system.state_files import StateError

if TYPE_CHECKING:
    from pathlib import Path

LONG = "l" * 120


@pytest.fixture(autouse=True)
def _short_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def can_listen(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    return path.is_socket()


def test_it_is_in_the_state_directory_where_that_fits(tmp_path: Path) -> None:
    path = socket_path(tmp_path / "state")
    assert path.is_relative_to(tmp_path / "state")
    assert can_listen(path)


def test_a_long_state_directory_gets_a_short_place_of_its_own(tmp_path: Path) -> None:
    paths = {socket_path(tmp_path / LONG) for _ in range(2)}
    assert len(paths) == 2
    assert all(can_listen(path) for path in paths)


def test_nowhere_short_is_told_and_nothing_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LONG).mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / LONG))
    with pytest.raises(StateError, match="too long") as caught:
        socket_path(tmp_path / f"{LONG}s")
    assert caught.value.code == "state_directory"
    assert [*(tmp_path / LONG).rglob("run-*")] == []


def test_workers_meet_in_a_directory_that_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        directory = local_links_directory()
        assert directory is not None
        assert directory.stat().st_mode & 0o077 == 0
        assert can_listen(directory / ("f" * LINK_NAME_CHARACTERS))


def test_workers_do_not_meet_where_no_path_would_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / LONG))
    assert local_links_directory() is None

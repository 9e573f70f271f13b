from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from node_app.system.state_files import StateError, hold_directory, prepare_directory, read_bounded, write_private

if TYPE_CHECKING:
    from pathlib import Path


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    directory = prepare_directory(tmp_path / "a" / "state")
    write_private(directory / "file", b"data")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "file").stat().st_mode) == 0o600


def test_an_open_directory_is_closed_to_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert stat.S_IMODE(prepare_directory(tmp_path).stat().st_mode) == 0o700


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_private(tmp_path / "file", b"old")
    write_private(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    write_private(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write_private(tmp_path / "file", "text")  # type: ignore[arg-type]  # the failure
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_bounded(tmp_path / "absent", 5) is None
    assert read_bounded(tmp_path / "file", 5) == b"12345"
    with pytest.raises(StateError, match="state_damaged"):
        read_bounded(tmp_path / "file", 4)


def test_a_directory_serves_one_agent_at_a_time(tmp_path: Path) -> None:
    with hold_directory(tmp_path), pytest.raises(StateError, match="state_in_use"), hold_directory(tmp_path):
        pass
    with hold_directory(tmp_path):
        pass


def test_a_place_where_nothing_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StateError, match="state_directory"):
        prepare_directory(tmp_path / "file" / "state")

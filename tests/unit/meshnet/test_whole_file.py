from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest

from meshnet.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"older")
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_has_the_permissions_asked_for(mode: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o777)
    write_whole(tmp_path / "file", b"new", mode)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) & ~mode == 0


def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    write_whole(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_name_may_be_as_long_as_names_are(tmp_path: Path) -> None:
    name = "n" * os.pathconf(tmp_path, "PC_NAME_MAX")
    write_whole(tmp_path / name, b"data")
    assert names(tmp_path) == [name]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "absent" / "file", b"new")
    assert names(tmp_path) == []

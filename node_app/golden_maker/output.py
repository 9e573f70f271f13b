"""Writes the golden probe that `meshnet probe` has computed to a file.

Invariants: a file that is already at the path stays until the new one is complete. If no file may be written there, the
path is refused before anything is computed.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import TYPE_CHECKING

from meshnet.errors import ArtifactError
from meshnet.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def require_writable(path: Path, model_paths: Iterable[Path]) -> None:
    """Raise if `path` cannot be written; called before the model is computed, which may take hours.

    Raises:
        ArtifactError: `unwritable`: no file can be written at the path, or it is one of the model's files.
    """
    with _told_of(path):
        _refuse_others(path, model_paths)
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass


def write_output(path: Path, data: bytes) -> None:
    """Write `data` to the file at `path`, replacing an older file there.

    Raises:
        ArtifactError: `unwritable`: the file cannot be written; an older file there is unchanged.
    """
    with _told_of(path):
        write_whole(path, data)


def _refuse_others(path: Path, model_paths: Iterable[Path]) -> None:
    # With a system administrator's rights, writing would replace a device by a file.
    if not path.name or (path.exists() and not path.is_file()):
        raise _unwritable(path, "it exists and is not a regular file")
    if path.exists() and any(path.samefile(one) for one in model_paths):
        raise _unwritable(path, "it is a file of the model itself")


@contextlib.contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error.strerror or type(error).__name__) from error


def _unwritable(path: Path, why: str) -> ArtifactError:
    return ArtifactError("unwritable", "File cannot be written", f"{path}: {why}")

"""The file that `meshnet probe` writes.

Invariant: what stands at its path until then is kept; a path at which no file may be written is refused before anything
is computed.
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
    """Refuse a path before the walk through the model, which may take hours.

    Raises:
        ArtifactError: `unwritable`: it is no place for a file, or one of the model's files.
    """
    with _told_of(path):
        _refuse_others(path, model_paths)
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass


def write_output(path: Path, data: bytes) -> None:
    """Write a file, in place of the one that there is.

    Raises:
        ArtifactError: `unwritable`; what was there is there still.
    """
    with _told_of(path):
        write_whole(path, data)


def _refuse_others(path: Path, model_paths: Iterable[Path]) -> None:
    # A device would be replaced by a file, which a system administrator's rights allow.
    if not path.name or (path.exists() and not path.is_file()):
        raise _unwritable(path, "it is there and no regular file")
    if path.exists() and any(path.samefile(one) for one in model_paths):
        raise _unwritable(path, "it is the model's own file")


@contextlib.contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error.strerror or type(error).__name__) from error


def _unwritable(path: Path, why: str) -> ArtifactError:
    return ArtifactError("unwritable", "File cannot be written", f"{path}: {why}")

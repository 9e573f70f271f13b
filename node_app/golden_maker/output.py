"""The file that `meshnet probe` writes: whole or absent.

Invariant: what stands at its path until then is kept; a path at which no file may be written is refused before anything
is computed.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

from meshnet.errors import ArtifactError

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
    draft = _draft(path)
    with _told_of(path), _removed(draft):
        draft.touch(exist_ok=False)


def _refuse_others(path: Path, model_paths: Iterable[Path]) -> None:
    # A device would be replaced by a file, which a system administrator's rights allow.
    if not path.name or (path.exists() and not path.is_file()):
        raise _unwritable(path, "it is there and no regular file")
    if path.exists() and any(path.samefile(one) for one in model_paths):
        raise _unwritable(path, "it is the model's own file")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, in place of the one that there is.

    Raises:
        ArtifactError: `unwritable`; what was there is there still.
    """
    draft = _draft(path)
    with _told_of(path), _removed(draft):
        draft.write_bytes(data)
        draft.replace(path)


def _draft(path: Path) -> Path:
    """Beside the file, and no longer than any name may be."""
    return path.with_name(f".probe-{secrets.token_hex(8)}")


@contextlib.contextmanager
def _removed(draft: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the error that is told is the one before
            draft.unlink()


@contextlib.contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error.strerror or type(error).__name__) from error


def _unwritable(path: Path, why: str) -> ArtifactError:
    return ArtifactError("unwritable", "File cannot be written", f"{path}: {why}")

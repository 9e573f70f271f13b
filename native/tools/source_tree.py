"""Digests, fingerprints and safe unpacking of trees of source files.

Invariants: nothing is written outside the destination. Only regular files and folders are unpacked. A digest depends on
names, executable bits and bytes only, not on times, owners or the order of the file system.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

_READ_BYTES = 1 << 20


class SourceError(Exception):
    """The source on disk or in the archive does not match the provenance manifest, or is unsafe to unpack."""


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file as lower-case hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def regular_files(tree: Path) -> Iterator[Path]:
    """Yield every file under `tree` in path order.

    Raises:
        SourceError: an entry is neither a regular file nor a folder; a link could point anywhere.
    """
    for path in sorted(tree.rglob("*"), key=lambda found: found.relative_to(tree).as_posix()):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise SourceError(f"{path}: neither a regular file nor a folder")
        if path.is_file():
            yield path


def tree_digest(tree: Path) -> tuple[str, int]:
    """Return (SHA-256 hex, number of files) of a tree: names, executable bits and contents.

    Raises:
        SourceError: the tree is missing or has an entry that is neither a regular file nor a folder.
    """
    if not tree.is_dir():
        raise SourceError(f"{tree}: no such folder")
    digest = hashlib.sha256()
    files = 0
    for path in regular_files(tree):
        kind = "x" if path.stat().st_mode & 0o100 else "-"
        digest.update(f"{kind} {sha256_file(path)} {path.relative_to(tree).as_posix()}\n".encode())
        files += 1
    return digest.hexdigest(), files


def tree_fingerprint(tree: Path) -> str:
    """Return a digest of names, sizes and modification times, which changes if a file is edited; reads no file."""
    digest = hashlib.sha256()
    for path in regular_files(tree):
        facts = path.stat()
        digest.update(f"{path.relative_to(tree).as_posix()} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _inside(name: str, subtree: PurePosixPath, pruned: frozenset[str]) -> PurePosixPath | None:
    """Return the path of an archive member relative to `subtree`; None if it lies outside or is pruned.

    Raises:
        SourceError: the path is absolute or contains "..".
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SourceError(f"archive member {name!r} escapes the archive")
    if not path.is_relative_to(subtree) or path == subtree:
        return None
    relative = path.relative_to(subtree)
    return None if relative.parts[0] in pruned else relative


def unpack_subtree(archive: Path, subtree: str, pruned: Iterable[str], destination: Path) -> int:
    """Unpack one folder of a .tar.gz into `destination`, which is replaced, and return the number of files.

    Args:
        archive: the archive; the caller has verified its digest.
        subtree: folder inside the archive that becomes the root of `destination`.
        pruned: names directly under `subtree` that are left out.
        destination: folder that is removed first and then filled.

    Raises:
        SourceError: a member's path leads out of the archive, a member to be unpacked is a link or a special file, or
            no member lies under `subtree`.
    """
    if destination.exists():
        shutil.rmtree(destination)
    destination.mkdir(parents=True)
    root, left_out, files = PurePosixPath(subtree), frozenset(pruned), 0
    with tarfile.open(archive, "r:gz") as members:
        for member in members:
            relative = _inside(member.name, root, left_out)
            if relative is None or member.isdir():
                continue
            stream = members.extractfile(member) if member.isreg() else None
            if stream is None:
                raise SourceError(f"archive member {member.name!r} is not a regular file")
            target = destination / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            with stream, target.open("xb") as output:
                shutil.copyfileobj(stream, output, _READ_BYTES)
            target.chmod(0o755 if member.mode & 0o100 else 0o644)
            files += 1
    if not files:
        raise SourceError(f"{archive.name}: nothing under {subtree}")
    return files

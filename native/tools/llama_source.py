"""The pinned llama.cpp source: fetch, verify, unpack, patch, verify again.

    llama_source.py fetch     make build/llama.cpp match native/provenance.json (well under 1 s if it already does)
    llama_source.py verify    unpack and patch anew, check all digests, and check that altered sources are refused
    llama_source.py record    write the digests of a changed patch stack into native/provenance.json

Invariant: a source tree gets the name build/llama.cpp only after its digest matched before and after patching.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patch_stack import apply_patch, list_patches
from pypi_archive import PypiArchive, fetch_archive
from source_tree import SourceError, sha256_file, tree_digest, tree_fingerprint, unpack_subtree

ROOT = Path(__file__).resolve().parents[2]
EDITED_VARIABLE = "MESHNET_EDITED_LLAMA"


@dataclass(frozen=True)
class Provenance:
    """Contents of `native/provenance.json`. Digests are SHA-256 in lower-case hex; a clean tree is unpatched."""

    archive: PypiArchive
    subtree: str
    pruned: tuple[str, ...]
    clean_sha256: str
    patched_sha256: str


@dataclass(frozen=True)
class Places:
    """Paths in a checkout that this program reads or writes."""

    provenance: Path
    patches: Path
    downloads: Path
    source: Path
    stamp: Path
    scratch: Path


def places(root: Path) -> Places:
    """Return the `Places` of the checkout at `root`."""
    native, build = root / "native", root / "build"
    return Places(
        provenance=native / "provenance.json",
        patches=native / "patches",
        downloads=build / "downloads",
        source=build / "llama.cpp",
        stamp=build / "llama.cpp.stamp",
        scratch=build,
    )


def read_provenance(path: Path) -> Provenance:
    """Parse the provenance manifest.

    Raises:
        SourceError: the file is missing, not JSON, or lacks a field.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        archive, tree = fields["archive"], fields["tree"]
        return Provenance(
            archive=PypiArchive(fields["package"], fields["version"], archive["file_name"], archive["sha256"]),
            subtree=archive["subtree"],
            pruned=tuple(tree["pruned"]),
            clean_sha256=tree["clean_sha256"],
            patched_sha256=tree["patched_sha256"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{path}: not a provenance manifest: {error!r}") from error


def _require_tree(tree: Path, expected: str, name: str) -> int:
    found, files = tree_digest(tree)
    if found != expected:
        raise SourceError(f"{name}: tree digest is {found}, expected {expected} ({files} files)")
    return files


def _inputs(at: Places) -> dict[str, str]:
    tools = Path(__file__).resolve().parent
    paths = [at.provenance, *list_patches(at.patches), *sorted(tools.glob("*.py"))]
    return {path.name: sha256_file(path) for path in paths}


def _read_stamp(at: Places) -> dict[str, object]:
    try:
        stamp = json.loads(at.stamp.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # If there is no stamp, or a crash cut it off, the tree is made anew.
        return {}
    return stamp if isinstance(stamp, dict) else {}


def is_current(at: Places) -> bool:
    """Return whether build/llama.cpp was made from the present manifest, patches and tools.

    If `EDITED_VARIABLE` is set to 1, a folder that was edited by hand counts as current.

    Raises:
        SourceError: the folder was edited by hand, and `EDITED_VARIABLE` is not set to 1.
    """
    stamp = _read_stamp(at)
    if not stamp or not at.source.is_dir():
        return False
    if stamp.get("fingerprint") != tree_fingerprint(at.source):
        # A patch is written by editing this folder, so unpacking over it could destroy hours of work.
        if os.environ.get(EDITED_VARIABLE) == "1":
            print(f"llama.cpp source: EDITED by hand and used as it is ({EDITED_VARIABLE}=1)", file=sys.stderr)
            return True
        raise SourceError(f"{at.source} was edited by hand: set {EDITED_VARIABLE}=1 to use it, or remove the folder")
    return stamp.get("inputs") == _inputs(at)


def fetch(at: Places) -> str:
    """Make build/llama.cpp current and return a line for people about the result. Idempotent.

    Raises:
        SourceError: a digest differs or a patch does not apply; an existing source folder is left unchanged.
    """
    if is_current(at):
        return "llama.cpp source: up to date"
    promise = read_provenance(at.provenance)
    patches = list_patches(at.patches)
    archive = fetch_archive(promise.archive, at.downloads)
    with tempfile.TemporaryDirectory(dir=at.scratch) as scratch:
        tree = Path(scratch) / "tree"
        print(f"llama.cpp source: unpacking {archive.name}", flush=True)
        unpack_subtree(archive, promise.subtree, promise.pruned, tree)
        files = _require_tree(tree, promise.clean_sha256, "unpacked source")
        for patch in patches:
            apply_patch(tree, patch)
        _require_tree(tree, promise.patched_sha256, "patched source")
        at.stamp.unlink(missing_ok=True)
        _replace_tree(tree, at.source)
    stamp = {"inputs": _inputs(at), "fingerprint": tree_fingerprint(at.source)}
    at.stamp.write_text(json.dumps(stamp), encoding="utf-8")
    return f"llama.cpp source: {files} files verified, {len(patches)} patches applied"


def _replace_tree(new: Path, final: Path) -> None:
    """Move `new` to `final`; unchanged files keep their times, so that only changed files are compiled again."""
    if final.is_dir():
        for path in new.rglob("*"):
            old = final / path.relative_to(new)
            if path.is_file() and old.is_file() and old.read_bytes() == path.read_bytes():
                shutil.copystat(old, path)
        shutil.rmtree(final)
    new.replace(final)


def _patched_copy(at: Places, promise: Provenance, tree: Path) -> tuple[int, int]:
    """Unpack and patch the source into `tree`; return the numbers of files and of patched files."""
    archive = fetch_archive(promise.archive, at.downloads)
    unpack_subtree(archive, promise.subtree, promise.pruned, tree)
    files = _require_tree(tree, promise.clean_sha256, "clean source")
    changed = 0
    for patch in list_patches(at.patches):
        count = apply_patch(tree, patch)
        print(f"patches-verify: {patch.name}: {count} files, no fuzz, no offset", flush=True)
        changed += count
    return files, changed


def _refused(tree: Path, expected: str) -> bool:
    """Return whether the digest check refuses the tree if one byte is altered; this is a negative control."""
    victim = next(path for path in sorted(tree.rglob("*")) if path.is_file() and path.stat().st_size)
    original = victim.read_bytes()
    victim.write_bytes(bytes([original[0] ^ 1]) + original[1:])
    try:
        _require_tree(tree, expected, "control")
    except SourceError:
        return True
    finally:
        victim.write_bytes(original)
    return False


def verify(at: Places) -> str:
    """Rebuild the patched source from the archive in a scratch folder and return the summary line.

    Raises:
        SourceError: a digest differs, a patch does not apply exactly, or a negative control was not refused.
    """
    promise = read_provenance(at.provenance)
    with tempfile.TemporaryDirectory(dir=at.scratch) as scratch:
        tree = Path(scratch) / "tree"
        files, changed = _patched_copy(at, promise, tree)
        _require_tree(tree, promise.patched_sha256, "patched source")
        if not _refused(tree, promise.patched_sha256):
            raise SourceError("negative control: an altered tree was accepted")
        controls = 1
        for patch in list_patches(at.patches)[:1]:
            # Negative control: a patch must not apply a second time.
            try:
                apply_patch(tree, patch)
            except SourceError:
                controls += 1
            else:
                raise SourceError(f"negative control: {patch.name} was accepted twice")
    patches = len(list_patches(at.patches))
    return f"patches-verify: {patches} patches, {changed} files changed of {files}, {controls} controls refused: ok"


def record(at: Places) -> str:
    """Write the digests of the clean and patched trees into the manifest. Run it after changing a patch.

    Raises:
        SourceError: the archive's own digest differs or a patch does not apply exactly.
    """
    promise = read_provenance(at.provenance)
    archive = fetch_archive(promise.archive, at.downloads)
    with tempfile.TemporaryDirectory(dir=at.scratch) as scratch:
        tree = Path(scratch) / "tree"
        unpack_subtree(archive, promise.subtree, promise.pruned, tree)
        clean, files = tree_digest(tree)
        for patch in list_patches(at.patches):
            apply_patch(tree, patch)
        patched, _ = tree_digest(tree)
    fields = json.loads(at.provenance.read_text(encoding="utf-8"))
    fields["tree"] |= {"clean_sha256": clean, "files": files, "patched_sha256": patched}
    at.provenance.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    return f"recorded: clean {clean}, patched {patched}, {files} files"


def main() -> int:
    """Run one command; if the source is wrong, print one line on stderr and return status 1."""
    commands = {"fetch": fetch, "verify": verify, "record": record}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=sorted(commands))
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout to work on")
    arguments = parser.parse_args()
    at = places(arguments.root)
    at.scratch.mkdir(parents=True, exist_ok=True)
    try:
        print(commands[arguments.command](at), flush=True)
    except SourceError as error:
        print(f"llama_source: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

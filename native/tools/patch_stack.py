"""The numbered patch stack on llama.cpp: lists the patches in order and applies them with no fuzz and no offset.

It uses `patch -p1 -F0`, because `git apply` succeeds without changing anything if it runs inside a folder that the
surrounding repository ignores.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from source_tree import SourceError

_NAME = re.compile(r"(\d{4})-[a-z0-9][a-z0-9-]*\.patch")
_MOVED = re.compile(r"\b(offset|fuzz)\b", re.IGNORECASE)
_PATCH_TIMEOUT_S = 60
# If the user cannot install programs, bootstrap unpacks them here.
_PREFIX_PATCH = Path(__file__).resolve().parents[2] / "build/prefix/usr/bin/patch"


def list_patches(folder: Path) -> list[Path]:
    """Return the patches of the stack in order.

    Raises:
        SourceError: a name is malformed, or the numbers are not 1, 2, 3, ... without a gap.
    """
    patches = sorted(folder.glob("*.patch"))
    for expected, patch in enumerate(patches, start=1):
        match = _NAME.fullmatch(patch.name)
        if match is None:
            raise SourceError(f"{patch.name}: patches are named NNNN-lower-case-words.patch")
        if int(match[1]) != expected:
            raise SourceError(f"{patch.name}: expected number {expected:04d}; the stack has a gap or a repeat")
    return patches


def apply_patch(tree: Path, patch: Path) -> int:
    """Apply one patch to `tree` and return the number of files it changed.

    Raises:
        SourceError: the patch does not apply exactly at its line numbers, or changes no file.
    """
    program = shutil.which("patch") or str(_PREFIX_PATCH)
    command = [program, "-p1", "-F0", "--batch", "--forward", "--no-backup-if-mismatch", f"--input={patch.resolve()}"]
    done = subprocess.run(
        command,
        cwd=tree,
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATCH_TIMEOUT_S,
        check=False,
    )
    output = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        raise SourceError(f"{patch.name} does not apply:\n{output}")
    if _MOVED.search(output):
        raise SourceError(f"{patch.name} applies only with an offset or fuzz; regenerate it:\n{output}")
    changed = sum(1 for line in output.splitlines() if line.startswith("patching file "))
    if not changed:
        raise SourceError(f"{patch.name} changes no file:\n{output}")
    return changed

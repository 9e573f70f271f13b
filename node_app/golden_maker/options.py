"""The command line of `meshnet probe`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

THREADS_MAX = 1024


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """What was asked for; `worker_path` and `threads` None: found here."""

    gguf_path: Path
    output: Path
    worker_path: Path | None
    threads: int | None
    as_json: bool


def parse_options(arguments: Sequence[str]) -> ProbeOptions:
    """Read the command line.

    Raises:
        SystemExit: it is wrong, or help was asked for; argparse has told the user.
    """
    parser = argparse.ArgumentParser(
        prog="meshnet probe",
        description="Compute what a model gives for a few fixed token ids at every place where it may be cut. "
        "Nodes prove their shards by it: `meshnet site import-golden`. Takes the memory of the largest layer.",
    )
    parser.add_argument("gguf", type=Path, help="the model's file, or the first part of a split one")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file to write")
    parser.add_argument("--worker", type=Path, help="worker program (default: the one built or installed)")
    parser.add_argument("--threads", type=_threads, help="running threads (default: the cores this process may use)")
    parser.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    return ProbeOptions(given.gguf, given.output, given.worker, given.threads, given.as_json)


def _threads(words: str) -> int:
    if not words.isascii() or not words.isdigit() or not 1 <= int(words) <= THREADS_MAX:
        raise argparse.ArgumentTypeError(f"{words!r} is not a number from 1 to {THREADS_MAX}")
    return int(words)

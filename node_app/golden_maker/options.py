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
    """Options of `meshnet probe`. If the worker's path or the number of threads is None, the command chooses it."""

    gguf_path: Path
    output: Path
    worker_path: Path | None
    threads: int | None
    as_json: bool


def parse_options(arguments: Sequence[str]) -> ProbeOptions:
    """Return the options that the command line gives.

    Raises:
        SystemExit: the command line is wrong, or help was asked for; argparse has printed the message.
    """
    parser = argparse.ArgumentParser(
        prog="meshnet probe",
        description="Compute a model's golden probe: its rows for a few fixed token ids at every layer at which the "
        "model may be cut. A site that has imported it (`meshnet site import-golden`) lets nodes test their shards "
        "against it. Needs memory for the largest layer.",
    )
    parser.add_argument("gguf", type=Path, help="model file, or the first part of a split model")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file to write")
    parser.add_argument("--worker", type=Path, help="worker program (default: the one built or installed)")
    parser.add_argument("--threads", type=_threads, help="threads that compute (default: one per available core)")
    parser.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    return ProbeOptions(given.gguf, given.output, given.worker, given.threads, given.as_json)


def _threads(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= THREADS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {THREADS_MAX}")
    return int(text)

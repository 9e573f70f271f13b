"""The command line of `meshnet inspect`.

Invariant: argparse refuses wrong values before a file is opened.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from meshnet.artifact.model.memory import Load
from meshnet.artifact.model.split import MACHINES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_CONTEXT_LENGTH: Final = 4096
CONTEXT_LENGTH_MAX: Final = 1 << 24
SEQUENCES_MAX: Final = 4096
MEMORY_MAX_BYTES: Final = 1 << 50
UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MEMORY: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)([KMGT]?)(?:iB)?")
_DIGITS: Final = re.compile(r"[0-9]{1,12}")
_RANGE: Final = re.compile(r"([0-9]{1,5}):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """The options of `meshnet inspect`.

    Attributes:
        paths: the model's first file, or several of its parts.
        load: number and length of the sessions for which memory is computed.
        ranges: half-open ranges of layers whose memory is asked for.
        memories: bytes of memory of each machine in the split; empty if no split is asked for.
        as_json: if true, the report is JSON.
    """

    paths: tuple[Path, ...]
    load: Load
    ranges: tuple[tuple[int, int], ...]
    memories: tuple[int, ...]
    as_json: bool


def parse_memory(text: str) -> int:
    """Return the number of bytes that a text such as "24G", "1.5T" or "4096" means; units are powers of 1024.

    Raises:
        argparse.ArgumentTypeError: the text is not a size, or the size is not from 1 byte to 1 PiB.
    """
    found = _MEMORY.fullmatch(text)
    size_bytes = int(float(found[1]) * UNITS[found[2]]) if found else 0
    if not 1 <= size_bytes <= MEMORY_MAX_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a memory size such as 24G")
    return size_bytes


def parse_range(text: str) -> tuple[int, int]:
    """Return the half-open range of layers that a text such as "0:15" means.

    Raises:
        argparse.ArgumentTypeError: the text is not a range, or the range is empty.
    """
    found = _RANGE.fullmatch(text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of layers such as 0:15")
    return int(found[1]), int(found[2])


def _parse_memories(text: str) -> tuple[int, ...]:
    memories = tuple(parse_memory(one.strip()) for one in text.split(","))
    if len(memories) > MACHINES_MAX:
        raise argparse.ArgumentTypeError(f"a split can be planned for up to {MACHINES_MAX} machines")
    return memories


def _count(largest: int) -> type[int]:
    """Return a type for argparse that accepts whole numbers from 1 to `largest`."""

    class Count(int):
        def __new__(cls, text: str) -> Self:
            if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= largest:
                raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {largest}")
            return super().__new__(cls, int(text))

    return Count


def parse_options(arguments: Sequence[str]) -> InspectOptions:
    """Parse the command line of `meshnet inspect`.

    Raises:
        SystemExit: with 2 if the command line is wrong, with 0 if help was asked for.
    """
    parser = argparse.ArgumentParser(prog="meshnet inspect", description="Report on a GGUF model from its headers.")
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="the model's first file, or several of its parts"
    )
    parser.add_argument("--context", type=_count(CONTEXT_LENGTH_MAX), default=DEFAULT_CONTEXT_LENGTH, metavar="N",
                        help=f"positions of a session (default {DEFAULT_CONTEXT_LENGTH})")  # fmt: skip
    parser.add_argument(
        "--sequences", type=_count(SEQUENCES_MAX), default=1, metavar="N", help="sessions at once (default 1)"
    )
    parser.add_argument("--layers", type=parse_range, action="append", default=[], metavar="B:E",
                        help="report the memory of layers B:E, without E; may be given several times")  # fmt: skip
    parser.add_argument("--memory", type=_parse_memories, default=(), metavar="SIZE,SIZE",
                        help="suggest a split over machines whose workers may use this much: 100G,20G")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    chosen = parser.parse_args(list(arguments))
    return InspectOptions(
        tuple(chosen.files), Load(chosen.context, chosen.sequences), tuple(chosen.layers), chosen.memory, chosen.json
    )

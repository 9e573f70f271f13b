"""How much memory a worker keeps for its weights, against the bytes of the tensors that it owns. Linux.

What is resident is read from the kernel, mapping by mapping: pages of the model's file, and anonymous mappings too
large for anything but weights, cache and graph; the last two are known from the worker's own report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER: Final = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (?P<inode>\d+) *(?P<name>.*)")
_RSS: Final = re.compile(r"Rss: +(?P<kib>\d+) kB")
# Vocabulary, protobuf and the rest come in smaller pieces, or from the heap.
LARGE_BYTES: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of a process.

    Attributes:
        file_bytes: of the model's file.
        anonymous_bytes: of large anonymous mappings.
        total_bytes: all of them.
    """

    file_bytes: int
    anonymous_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class ResidentWeights:
    """One stage's weights.

    Attributes:
        owned_bytes: of its tensors in the file.
        other_bytes: of cache and graph, which the worker reports.
    """

    memory: Memory
    owned_bytes: int
    other_bytes: int

    @property
    def ratio(self) -> float:
        """Resident bytes of weights by owned bytes."""
        weights = self.memory.file_bytes + self.memory.anonymous_bytes - self.other_bytes
        return weights / self.owned_bytes

    def report(self) -> dict[str, object]:
        """For the last line."""
        return {
            "ratio": round(self.ratio, 4),
            "owned_bytes": self.owned_bytes,
            "file_bytes": self.memory.file_bytes,
            "large_anonymous_bytes": self.memory.anonymous_bytes,
            "cache_and_graph_bytes": self.other_bytes,
            "process_bytes": self.memory.total_bytes,
        }


def memory_of(pid: int, model: Path) -> Memory:
    """A process' resident memory now.

    Raises:
        OSError: it is gone, or somebody else's.
    """
    with Path(f"/proc/{pid}/smaps").open(encoding="utf-8", errors="replace") as lines:
        return read_smaps(lines, model.name)


def read_smaps(lines: Iterable[str], file_name: str) -> Memory:
    """Sum up the kernel's list of mappings."""
    file_bytes = anonymous_bytes = total_bytes = 0
    for inode, name, rss_bytes in _mappings(lines):
        total_bytes += rss_bytes
        if name.endswith(file_name):
            file_bytes += rss_bytes
        elif inode == 0 and not name and rss_bytes >= LARGE_BYTES:
            anonymous_bytes += rss_bytes
    return Memory(file_bytes, anonymous_bytes, total_bytes)


def _mappings(lines: Iterable[str]) -> Iterator[tuple[int, str, int]]:
    inode, name = 0, ""
    for line in lines:
        if (header := _HEADER.match(line)) is not None:
            inode, name = int(header["inode"]), header["name"].strip()
        elif (rss := _RSS.match(line)) is not None:
            yield inode, name, int(rss["kib"]) * 1024

"""Reads cores and memory on Linux, from CPU affinity, cgroup v2 limits and /proc/meminfo.

Invariant: all figures but the affinity are read from files below two folders, so that tests can name folders of their
own.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from node_app.hardware.base import Hardware, MachineFigures

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
TEXT_LIMIT_CHARACTERS = 65536


def _read_text(path: Path) -> str | None:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            return file.read(TEXT_LIMIT_CHARACTERS)
    except OSError:
        return None  # this kernel does not have the file


def parse_meminfo(text: str) -> dict[str, int]:
    """Return the fields of /proc/meminfo in bytes; lines that are not of the form "NAME: NUMBER kB" are skipped."""
    fields: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[0].isdecimal() and words[1] == "kB":
            fields[name] = int(words[0]) * 1024
    return fields


def parse_cpu_quota(text: str) -> int | None:
    """Return the cores that the text of a cgroup's `cpu.max` allows, rounded up, at least 1; None if unlimited."""
    words = text.split()
    if len(words) != 2 or not words[0].isdecimal() or not words[1].isdecimal() or int(words[1]) == 0:
        return None
    return max(1, math.ceil(int(words[0]) / int(words[1])))


def parse_limit_bytes(text: str) -> int | None:
    """Return the bytes that the text of a cgroup's memory file gives; None if it is `max` (unlimited) or no number."""
    word = text.strip()
    return int(word) if word.isdecimal() else None


class LinuxHardware(Hardware):
    """Reads cores and memory on Linux. `proc`, `cgroup`: mount points of the file systems of these names."""

    def __init__(self, proc: Path = PROC, cgroup: Path = CGROUP) -> None:
        self._proc = proc
        self._cgroup = cgroup

    def figures(self) -> MachineFigures:
        """Return the cores and the memory that this process may use now."""
        fields = parse_meminfo(_read_text(self._proc / "meminfo") or "")
        limits = list(self._memory_limits())
        total = [fields[name] for name in ("MemTotal",) if name in fields] + [limit for limit, _ in limits]
        available = [fields[name] for name in ("MemAvailable",) if name in fields]
        available += [max(0, limit - used) for limit, used in limits]
        return MachineFigures(
            cores=self._cores(),
            memory_total_bytes=min(total, default=None),
            memory_available_bytes=min(available, default=None),
        )

    def _cores(self) -> int:
        quotas = [parse_cpu_quota(_read_text(group / "cpu.max") or "") for group in self._groups()]
        allowed = len(os.sched_getaffinity(0))
        return min([allowed, *(quota for quota in quotas if quota is not None)])

    def _memory_limits(self) -> Iterator[tuple[int, int]]:
        """Yield the memory limit and the memory in use, in bytes, of each cgroup of this process that has a limit."""
        for group in self._groups():
            limit = parse_limit_bytes(_read_text(group / "memory.max") or "")
            used = parse_limit_bytes(_read_text(group / "memory.current") or "")
            if limit is not None:
                yield limit, used or 0

    def _groups(self) -> list[Path]:
        """Return the folders of this process's cgroup v2 and of its parents, since each of them may set a limit."""
        text = _read_text(self._proc / "self" / "cgroup") or ""
        relative = next((line[3:] for line in text.splitlines() if line.startswith("0::")), None)
        if relative is None:
            return []
        folder = self._cgroup / relative.lstrip("/")
        return [group for group in (folder, *folder.parents) if group.is_relative_to(self._cgroup)]

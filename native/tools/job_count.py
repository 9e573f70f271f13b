"""How many build jobs this machine can bear: affinity, the container's processor quota, and free memory."""

from __future__ import annotations

import os
from pathlib import Path

# The largest of llama.cpp's translation units takes about this much. Source: measured on the pinned tree.
JOB_MEMORY_BYTES = 1536 * 1024 * 1024


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:  # This kernel or container has no such file: no limit is known from it.
        return ""


def quota_processors(cgroup: Path) -> float:
    """Return the processor quota of a container as a number of processors; infinite where there is none."""
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if not quota:
        quota = _read(cgroup / "cpu/cpu.cfs_quota_us")
        period = _read(cgroup / "cpu/cpu.cfs_period_us")
    if quota in {"", "max", "-1"} or not period.isdigit():
        return float("inf")
    return int(quota) / int(period)


def available_memory_bytes(cgroup: Path, meminfo: Path) -> float:
    """Return the memory that may still be used: the machine's available, cut to the container's limit."""
    available = [line for line in _read(meminfo).splitlines() if line.startswith("MemAvailable:")]
    container = [_read(cgroup / name) for name in ("memory.max", "memory/memory.limit_in_bytes")]
    limits = [int(line.split()[1]) * 1024.0 for line in available]
    limits += [float(text) for text in container if text.isdigit()]
    return min(limits, default=float("inf"))


def job_count(cgroup: Path = Path("/sys/fs/cgroup"), meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the number of compile jobs to run at once, at least 1."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    by_memory = available_memory_bytes(cgroup, meminfo) / JOB_MEMORY_BYTES
    return max(1, int(min(processors, quota_processors(cgroup), by_memory)))

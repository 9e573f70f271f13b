"""Computes how many compile jobs this machine can run at once, from its processors, quotas and free memory."""

from __future__ import annotations

import os
from pathlib import Path

# Memory that compiling llama.cpp's largest translation unit takes. Source: measured on the pinned tree.
JOB_MEMORY_BYTES = 1536 * 1024 * 1024


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:  # This kernel or container has no such file, so it sets no limit.
        return ""


def quota_processors(cgroup: Path) -> float:
    """Return the processor quota of a container as a number of processors; infinity if there is no quota."""
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if not quota:
        quota = _read(cgroup / "cpu/cpu.cfs_quota_us")
        period = _read(cgroup / "cpu/cpu.cfs_period_us")
    if quota in {"", "max", "-1"} or not period.isdigit():
        return float("inf")
    return int(quota) / int(period)


def available_memory_bytes(cgroup: Path, meminfo: Path) -> float:
    """Return the smaller of the machine's available memory and the container's limit; infinity if neither is known."""
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

"""Runs a program that the kernel kills when its parent dies: `die_with_parent.py PARENT_PID PROGRAM [ARGUMENT...]`.

Invariants: replaces itself by the program, so the pid stays; started with `python -I -S`, so it imports the standard
library only and reads nothing of the user's. It exists because the parent cannot arm the signal for its child without
running Python between fork and exec in a process that has gRPC's threads. Linux only.

Source: prctl(2), PR_SET_PDEATHSIG; the setting survives execve(2) of a program without set-user-id.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
EXIT_USAGE = 2
EXIT_ORPHANED = 3
EXIT_CANNOT_RUN = 127

# Under memory pressure the kernel should take the worker, whose death the agent survives, and not the agent.
OOM_SCORE_ADJUSTMENT = "500"


def arm_death_signal(parent_pid: int) -> bool:
    """Ask for SIGKILL at the parent's death; False where the parent is already another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the signal was armed.
    return os.getppid() == parent_pid


def main(arguments: list[str]) -> int:
    """Arm the signal and become the program; returns only where that failed."""
    if len(arguments) < 2 or not arguments[0].isdecimal():
        sys.stderr.write("usage: die_with_parent.py PARENT_PID PROGRAM [ARGUMENT...]\n")
        return EXIT_USAGE
    if not arm_death_signal(int(arguments[0])):
        return EXIT_ORPHANED
    try:
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE_ADJUSTMENT, encoding="ascii")
    except OSError as error:  # a container may forbid it; the worker still runs
        sys.stderr.write(f"oom_score_adj: {error.strerror}\n")
    try:
        os.execv(arguments[1], arguments[1:])  # noqa: S606 - the point of this program
    except OSError as error:
        sys.stderr.write(f"{arguments[1]}: {error.strerror}\n")
        return EXIT_CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

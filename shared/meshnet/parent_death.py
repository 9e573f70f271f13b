"""Dying with one's parent, so that nothing outlives a process that was killed without a chance to clean up.

    python -I -S parent_death.py PARENT_PID OOM_SCORE_ADJUSTMENT PROGRAM [ARGUMENT...]

As a program it arms the kernel's signal and becomes PROGRAM, so the pid stays. It exists because a parent cannot arm
the signal for its child without running Python between fork and exec, which is unsafe beside gRPC's threads.

Invariants: imports the standard library only and, started as above, reads nothing of the user's; where
`die_with_parent` returns, the parent was alive after the kernel was told. The signal follows the *thread* that started
the child, which must live as long as its process: start children from the main thread.

Source: prctl(2), PR_SET_PDEATHSIG; the setting survives execve(2) of a program without set-user-id. docs/adr/0006.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
EXIT_USAGE = 2
EXIT_CANNOT_RUN = 127


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies (Linux; elsewhere only the check is made).

    Raises:
        OSError: the kernel refuses.
        SystemExit: the parent is gone already.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the signal was armed.
    if os.getppid() != parent_pid:
        raise SystemExit("the parent process is gone")


def bound_command(command: Sequence[str], *, oom_score_adjustment: int = 0) -> list[str]:
    """The command line with which this process starts a program that must not outlive it.

    Args:
        command: the program's absolute path, and its arguments.
        oom_score_adjustment: how much sooner than us the kernel should take it under memory pressure, 0 to 1000.
    """
    if sys.platform != "linux":
        return list(command)  # there is no such signal; a child that can, watches its parent itself
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(oom_score_adjustment), *command]


def main(arguments: list[str]) -> int:
    """Arm the signal and become the program; returns only where that failed."""
    if len(arguments) < 3 or not (arguments[0].isdecimal() and arguments[1].isdecimal()):
        sys.stderr.write("usage: parent_death.py PARENT_PID OOM_SCORE_ADJUSTMENT PROGRAM [ARGUMENT...]\n")
        return EXIT_USAGE
    parent_pid, oom_score_adjustment, program = int(arguments[0]), arguments[1], arguments[2]
    die_with_parent(parent_pid)
    _adjust_oom_score(oom_score_adjustment)
    try:
        os.execv(program, arguments[2:])  # noqa: S606 - the point of this program
    except OSError as error:
        sys.stderr.write(f"{program}: {error.strerror}\n")
        return EXIT_CANNOT_RUN


def _adjust_oom_score(adjustment: str) -> None:
    if adjustment == "0":
        return
    try:
        Path("/proc/self/oom_score_adj").write_text(adjustment, encoding="ascii")
    except OSError as error:  # a container may forbid it; the program still runs
        sys.stderr.write(f"oom_score_adj: {error.strerror}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Makes a child die with its parent, so that no child outlives a parent that was killed before it could clean up.

    python -I -S parent_death.py PARENT_PID OOM_SCORE_ADJUSTMENT PROGRAM [ARGUMENT...]

As a program it asks the kernel for a SIGKILL at the parent's death and then becomes PROGRAM, so the pid stays the same.
A parent cannot ask on behalf of its child: that needs Python code between fork and exec, which is unsafe beside gRPC's
threads.

Invariants: it imports only the standard library and, if started as above, reads none of the user's files. If
`die_with_parent` returns, the parent was still alive after the request to the kernel. The kernel sends the signal when
the *thread* that started the child ends, even if its process goes on: start children from the main thread.

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
    """Have the kernel kill this process when its parent dies. Outside Linux, only check that the parent is alive.

    Raises:
        OSError: the kernel refuses.
        SystemExit: the parent is already dead.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the signal was armed.
    if os.getppid() != parent_pid:
        raise SystemExit("the parent process is gone")


def bound_command(command: Sequence[str], *, oom_score_adjustment: int = 0) -> list[str]:
    """Return a command line that starts a program so that it does not outlive this process (on Linux alone).

    Args:
        command: the program's absolute path and its arguments.
        oom_score_adjustment: 0 to 1000; the higher it is, the sooner the kernel kills the program if memory runs out.
    """
    if sys.platform != "linux":
        return list(command)  # other systems have no such signal; a child may watch its parent itself
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(oom_score_adjustment), *command]


def main(arguments: list[str]) -> int:
    """Ask the kernel for the signal and become the program; return an exit status only if that failed."""
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
    except OSError as error:  # a container may forbid it; the program runs anyway
        sys.stderr.write(f"oom_score_adj: {error.strerror}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

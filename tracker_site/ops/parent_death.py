"""Dying with one's parent, so that nothing outlives a process that was killed without a chance to clean up.

Invariant: where `die_with_parent` returns, the parent was alive after the kernel was told.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies (Linux; elsewhere only the check is made).

    The signal follows the parent's *thread* that started this process, which therefore must be its main thread.

    Raises:
        OSError: the kernel refuses.
        SystemExit: the parent is gone already.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    if os.getppid() != parent_pid:
        raise SystemExit("the parent process is gone")

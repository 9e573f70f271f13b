"""`python -m tracker_site.ops.child PARENT_PID MODULE [ARGUMENT...]`: become a module that dies with its parent.

Invariant: the death signal survives the exec, so that the module itself needs to know nothing of it.
"""

from __future__ import annotations

import os
import sys

from tracker_site.ops.parent_death import die_with_parent


def child_command(module: str, *arguments: str) -> list[str]:
    """The command line with which this process starts a module that must not outlive it."""
    return [sys.executable, "-m", "tracker_site.ops.child", str(os.getpid()), module, *arguments]


def main(arguments: list[str]) -> None:
    """Arrange the death, then exec."""
    parent_pid, module, *rest = arguments
    die_with_parent(int(parent_pid))
    os.execv(sys.executable, [sys.executable, "-m", module, *rest])  # noqa: S606 - our own program


if __name__ == "__main__":
    main(sys.argv[1:])

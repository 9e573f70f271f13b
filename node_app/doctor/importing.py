"""The lock that the doctor's checks hold while they import modules.

If two threads import the modules of an import cycle in different orders, they wait for each other, and importlib then
fails one of the imports or hands out a half-initialised module. So only one check imports at a time.

Invariants: a check holds the lock only for its imports, never while it reads facts. If an import hangs, it keeps the
lock, and the checks that wait for the lock end at their own deadlines (`check_runs`).
"""

from __future__ import annotations

import threading
from typing import Final

IMPORT_LOCK: Final = threading.Lock()

"""The lock that checks hold while they import.

Two threads that import the modules of a circle in different order wait for each other, and importlib then fails one of
the imports or hands out half a module. So only one check imports at a time.

Invariants: a check holds the lock for its imports alone, never while it looks at something. An import that hangs keeps
the lock; the checks that wait for it end at their own deadlines like any other (`check_runs`).
"""

from __future__ import annotations

import threading
from typing import Final

IMPORT_LOCK: Final = threading.Lock()

"""`meshnet site ...`: the administrator's commands.

Invariants: every command ends with 0, or with one line on stderr and 2 (a wrong call or surroundings) or 1 (it was
tried and failed); with --json the last line of stdout is one JSON object.
"""

from tracker_site.commands.entry import main

__all__ = ["main"]

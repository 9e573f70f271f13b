"""`meshnet site ...`: the administrator's commands.

Invariants: a command that succeeds ends with status 0. Otherwise it prints one line on stderr and ends with 2 if the
command line or the environment is wrong, or with 1 if the command itself failed. With --json the last line of stdout
is one JSON object.
"""

from tracker_site.commands.entry import main

__all__ = ["main"]

"""`meshnet doctor`: says of this machine, in one line a check, whether a node would run here and what to do if not.

Invariants: `reading` asks the machine and judges nothing, `judging` is pure; each check has a deadline and none stops
another; nothing is changed on the machine, no session is opened, and no key or token is shown.
"""

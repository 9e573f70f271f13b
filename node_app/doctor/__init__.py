"""`meshnet doctor`: prints, one line per finding, whether a node would run on this machine and how to mend it if not.

Invariants: `reading` asks the machine and judges nothing; `judging` is pure. Each check has a deadline, and no check
stops another. The doctor changes nothing on the machine, opens no session, and shows no key and no token.
"""

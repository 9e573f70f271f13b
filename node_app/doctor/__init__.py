"""`meshnet doctor`: finds out whether a node would run on this machine, and prints how to mend each problem.

Invariants: `reading` collects facts and judges nothing; `judging` is pure. Each check has a deadline, and no check
stops another. The doctor changes nothing on the machine, opens no session, and shows no key and no token.
"""

"""What this node asks of the site and tells it: enrolment, identity, the control connection, golden rows.

Invariants: the node dials, the site never does; every answer of the site is bounded and parsed before it is used. No
session and no worker is known here.
"""

"""Routes: the choice of the nodes that serve a generation, and the Gateway's side of a Route Session.

Invariants: `planning` and `session` are pure, and `planning` does not import `session`. The modules beside them do the
I/O and decide nothing.
"""

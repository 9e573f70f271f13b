"""Routes: which nodes serve a generation, and a Route Session's whole life on the Gateway's side.

Invariants: `planning` and `session` are pure and `planning` does not know `session`; the modules beside them do the
I/O and decide nothing.
"""

"""The relay: the data plane between the members of a Route Session, a process of its own.

Invariant: imports `meshnet` only; no Django. It stores nothing for members who are absent and reads no payload.
"""

"""The relay: the data plane between the members of a Route Session, a process of its own.

Invariants: imports `meshnet` only, no Django. It stores nothing for absent members and reads no payload.
"""

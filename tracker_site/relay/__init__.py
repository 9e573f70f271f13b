"""The relay: a process of its own that forwards packets between the members of Route Sessions.

Invariants: it imports only `meshnet`, not Django. It stores nothing for absent members and reads no payload.
"""

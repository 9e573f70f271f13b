"""The data connection to the relay, and the packets that wait to be sent over it.

Invariants: if a packet's queue has no room, the caller learns it from the result; the queues do no I/O.
"""

"""The data connection to the relay, and the packets that wait to be sent over it.

Invariants: if there is no room for a packet, its sender is told; the queues are pure.
"""

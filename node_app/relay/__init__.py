"""The data connection to the relay, and the packets that wait on it.

Invariant: a packet that finds no room is refused, never dropped in silence; the queues are pure.
"""

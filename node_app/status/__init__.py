"""What other processes of this machine may know of a running agent: where it answers, and what it says.

Invariant: the tray imports this room, so nothing here needs an event loop, the network or the worker.
"""

"""What this machine has, behind one interface for each operating system.

Invariant: a figure that cannot be read is absent (None), never guessed.
"""

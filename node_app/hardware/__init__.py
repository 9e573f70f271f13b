"""Reads the number of cores and the memory of this machine, in a different way for each operating system.

Invariant: if a figure cannot be read, it is None; it is never guessed.
"""

"""Reads the machine's cores and memory, with one backend for each operating system.

Invariant: if a figure cannot be read, it is None; it is never guessed.
"""

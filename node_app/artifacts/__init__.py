"""Reads the headers of the model files on this machine, checks them, and computes the files' digests.

Invariants: GGUF bytes are untrusted; they are read, but never run or mapped into memory.
"""

"""The model files on this machine: their digest, their headers, and checks of both.

Invariants: GGUF bytes are untrusted; they are read, but never run or mapped into memory.
"""

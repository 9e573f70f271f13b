"""The model files on this machine: what they are and whether they are what they say.

Invariant: GGUF bytes are untrusted; nothing here runs or maps them.
"""

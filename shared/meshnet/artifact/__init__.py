"""The files of a model: what they hold, what they are called by, and which parts belong to which layers.

Invariant: everything read from a file is untrusted until it is checked; wrong bytes are an `ArtifactError`.
"""

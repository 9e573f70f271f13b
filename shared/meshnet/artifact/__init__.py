"""A model's files: reading them, identifying them by digest, and assigning their tensors to layers.

Invariant: everything read from a file is untrusted until it is checked. If the file's bytes are wrong, `ArtifactError`
is raised.
"""

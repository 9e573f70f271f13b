"""`meshnet inspect`: reports a model's tensors, legal cuts, caches and memory, all from its headers.

Invariants: no weight is read. If a file is wrong, `ArtifactError` is raised.
"""

"""`meshnet inspect`: what a model is made of, where it may be cut and what its parts take, read from its headers.

Invariants: no weight is read; what is wrong with a file is an `ArtifactError`.
"""

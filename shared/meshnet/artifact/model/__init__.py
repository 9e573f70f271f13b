"""Facts about a model that its header gives: the owner of each tensor, the legal cuts, and the memory a range needs.

Invariant: pure. Only headers are read, so a split can be planned before the model itself is downloaded.
"""

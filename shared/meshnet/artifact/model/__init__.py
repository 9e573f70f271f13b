"""Facts that a model's header gives: the stage that each tensor belongs to, legal cuts, and memory of a layer range.

Invariant: pure. Only headers are read, so a split can be planned before the model itself is downloaded.
"""

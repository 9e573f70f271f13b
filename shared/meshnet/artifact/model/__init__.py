"""What a model's header says of its parts: which stage owns a tensor, where it may be cut, what a range takes.

Invariant: pure; it reads headers alone, so that a model that is not here yet can be planned for.
"""

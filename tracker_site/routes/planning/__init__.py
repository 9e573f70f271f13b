"""Which nodes serve a generation, over which seams, in chunks of what size.

Invariants: pure; knows nothing of `routes.session`. A plan is made of the offers that it is given and of nothing else.
"""

"""Planning of a route: its nodes, its seams and the size of its chunks.

Invariants: pure; does not import `routes.session`. A plan depends only on the offers and the request.
"""

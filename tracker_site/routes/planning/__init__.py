"""Plans a route: chooses its nodes, the codecs of its seams and the size of its prompt chunks.

Invariants: pure; this package does not import `routes.session`. A plan depends only on the offers and the request.
"""

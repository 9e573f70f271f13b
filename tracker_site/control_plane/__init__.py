"""The control connections of nodes: the socket, what is said on it, and stages opened and closed over it.

Invariants: one connection speaks for a node; everything runs on the site's event loop; stages are opened and closed
through the channel layer, so the node's connection may be in another process.
"""

"""The control connections of nodes: their sockets and messages, and the stages opened and closed over them.

Invariants: a node has one current connection; everything runs on the site's event loop; stages are opened and closed
through the channel layer, so the node's connection may be in another process.
"""

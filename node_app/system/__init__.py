"""The node's use of its operating system: directories, private files, threads, logs and the reasons of failed requests.

Invariant: imports nothing else of the node.
"""

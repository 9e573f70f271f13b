"""What a node needs of its operating system: directories, private files, threads, logs, addresses that fail.

Invariant: imports nothing else of the node.
"""

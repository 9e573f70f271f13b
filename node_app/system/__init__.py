"""The node's use of its operating system: directories, private files, threads, logs, and texts for failed requests.

Invariant: these modules import nothing else of the node.
"""

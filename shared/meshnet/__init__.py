"""Meshnet's shared library: the protocol, its types and its rules, for the site and for the nodes.

Invariant: standard library, protobuf and cryptography only; no Django, Qt, sockets or clock.
"""

__version__ = "0.1.0"

"""Meshnet's shared library: the protocol, its types and its rules, for the site and for the nodes.

Invariant: it needs only the standard library, protobuf and cryptography (and pydantic in `meshnet.openai`); no Django,
Qt, sockets or clock.
"""

__version__ = "0.1.0"

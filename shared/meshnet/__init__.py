"""Meshnet's shared library: the protocol, its types and its rules, for the site and for the nodes.

Invariant: it needs only the standard library, protobuf and cryptography; `meshnet.openai` also needs pydantic, and
`meshnet.vocab` needs jinja2 and llama_cpp if a prompt is rendered or tokenised. It uses no Django, Qt, socket or clock.
"""

__version__ = "0.1.0"

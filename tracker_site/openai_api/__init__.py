"""The OpenAI API under `/v1`: one of the two faces of the gateway.

Invariants: every answer is an OpenAI object, errors included, whatever went wrong; nothing of a request's body is
logged; a client that goes away cancels its generation.
"""

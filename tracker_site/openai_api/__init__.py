"""The OpenAI API under `/v1`: one of the two ways to use the Gateway; the other is the chat.

Invariants: every answer is an OpenAI object, and every failure is an OpenAI error object. No part of a request's body
is logged. If a client disconnects, its generation is cancelled.
"""

"""Runs generations for the API and the chat: admission, hold, route, answer and settlement.

Invariants: a generation's hold is settled or released exactly once, even if the client, the route or the database
fails. Every phase has a deadline. The queue of tokens for a client is bounded. No text of a prompt or completion is
stored or logged. The modules `settlement` and `admission` are pure.
"""

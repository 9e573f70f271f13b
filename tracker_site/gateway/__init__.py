"""The life of one generation: admit, place the hold, open a route, deliver the answer, settle. API and chat use it.

Invariants: a generation's hold is settled or released exactly once, even if the client, the route or the database
fails. Every phase has a deadline. No queue grows beyond the token window. No text of a prompt or completion is stored
or logged. `settlement` and `admission` are pure.
"""

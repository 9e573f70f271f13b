"""The Gateway's side of a Route Session, from the plan to the last message.

Invariants: pure; the caller passes inputs and the time, and gets actions as values. Modules that wait or read a clock
lie in `routes`.
"""

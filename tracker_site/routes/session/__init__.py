"""A Route Session's whole life on the Gateway's side, from the plan to the last message.

Invariants: pure; inputs and the time are given from outside, and what is to be done comes out as values. Whatever
waits or reads a clock lies in `routes`.
"""

"""Routes: which nodes serve a generation, and a Route Session's whole life on the Gateway's side.

Invariant: the planner and the machines are pure; `driver.py` and `relay_link.py` do the I/O and decide nothing.
"""

"""Judges the facts that `reading` has read: each function turns facts into findings for a volunteer.

Invariant: pure.
"""

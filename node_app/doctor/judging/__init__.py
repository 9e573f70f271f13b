"""What the facts mean for a volunteer.

Invariant: pure; facts in, findings out.
"""

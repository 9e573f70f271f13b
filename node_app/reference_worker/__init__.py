"""The reference for what a worker is: its sessions in Python (`sessions`), and its engine in PyTorch (`torch`).

Invariants: `sessions` knows no engine; the native worker and this one are compared decision by decision and row by row.
"""

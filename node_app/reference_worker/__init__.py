"""The reference worker: sessions in Python (`sessions`) and an engine in PyTorch (`torch`).

Invariants: `sessions` knows no engine. Tests compare the native worker with this one, decision by decision and row by
row.
"""

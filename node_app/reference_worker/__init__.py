"""The reference worker in Python, with which tests compare the native worker.

`sessions` admits sessions and handles their messages; `torch` computes their rows with PyTorch. Tests compare the
decisions of `sessions` and the rows of `torch` with those of the native worker.

Invariant: `sessions` works with any engine.
"""

"""A worker in Python: the sessions of one shard behind the `Worker` service, for any engine that computes their rows.

Invariants: it decides as the native worker does (`docs/wire.md`). It reaches peers only through its bridge. Prompts,
activations and keys never reach its log.
"""

"""A worker in Python: the sessions of one shard behind the `Worker` service, whatever engine computes their rows.

Invariants: it follows the native worker decision by decision (`docs/wire.md`); it reaches peers through its bridge
alone; prompts, activations and keys never reach its log.
"""

"""A worker in Python: serves the gRPC service `Worker` for the sessions of one shard. Any engine can compute the rows.

Invariants: it decides as the native worker does (`docs/wire.md`). It exchanges messages with other workers only through
its bridge, that is, through the agent. Prompts, activations and keys never reach its log.
"""

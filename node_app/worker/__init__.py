"""The agent's side of the worker: its process, its gRPC service, its health and its limits.

Invariants: the agent survives if the worker dies; no worker outlives its agent.
"""

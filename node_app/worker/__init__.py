"""The native worker as the agent sees it: its process, its gRPC service, its health and its limits.

Invariant: the worker's death never takes the agent down, and no worker outlives its agent.
"""

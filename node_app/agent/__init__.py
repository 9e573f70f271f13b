"""The agent: what this node does next, with its worker, its sessions and its site.

Invariants: `plan`, `state` and `events` are pure, and an event changes the state in `state` alone; one event loop; no
command line, no HTTP, no Qt.
"""

"""The agent: decides the node's next steps and runs its worker, its sessions and its connection to the site.

Invariants: `plan`, `state` and `events` are pure, and an event changes the state in `state` alone; one event loop; no
command line, no HTTP, no Qt.
"""

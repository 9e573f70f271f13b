"""The agent: decides the node's next steps and runs its worker, its sessions and its connection to the site.

Invariants: `plan`, `state` and `events` are pure, and only `state.apply` changes the agent's state. Everything runs on
one event loop. Nothing here reads the command line, serves HTTP or uses Qt.
"""

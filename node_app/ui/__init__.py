"""The tray: a process of its own that shows the state of a node, for which it asks the agent's loopback HTTP server.

Invariants: the tray knows the agent only by its address file and the JSON of that server. `contact`, `errands`, `view`
and `announcing` decide and are free of Qt; the other modules draw and decide nothing. Nothing blocks the GUI thread.
"""

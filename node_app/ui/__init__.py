"""The tray: a process of its own that shows a node's agent, which it asks over the agent's loopback endpoint.

Invariants: the tray knows the agent only by its address file and the endpoint's JSON. `contact`, `errands`, `view` and
`announcing` decide and are free of Qt; the other modules draw and decide nothing. Nothing blocks the GUI thread.
"""

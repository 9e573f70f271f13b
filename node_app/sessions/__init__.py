"""The sessions that this node takes part in: stages of the site's routes, and those of its own machine (`local`).

Invariants: the worker admits a session, and this room follows; a session that ended holds no queue, no credit and no
place. Nothing here knows whether the node as a whole serves.
"""

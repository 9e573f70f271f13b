"""The sessions that this node takes part in: stages of the site's routes, and those of its own machine (`local`).

Invariants: the worker alone decides if a session is admitted; a session that ended holds no queue, no credit and no
place. These modules do not know whether the node as a whole serves; the agent does.
"""

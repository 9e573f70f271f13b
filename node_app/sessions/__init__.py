"""The sessions of this node: its stages of the site's routes, and the sessions for its own machine (`local`).

Invariants: the worker alone decides if a session is admitted; if a session has ended, nothing is held for it any more.
These modules do not know whether the node as a whole serves; the agent does.
"""

"""The node's requests to the site: enrolment, identity, the control connection and golden rows.

Invariants: the node dials, the site never does; every answer of the site is bounded in size and checked before it is
used. These modules know neither sessions nor the worker.
"""

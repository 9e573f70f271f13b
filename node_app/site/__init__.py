"""The node's requests to its site (enrolment, golden probes), the control connection, and the node's identity.

Invariants: the node opens every connection, the site none. Every answer of the site is bounded in size and checked
before it is used. These modules know neither sessions nor the worker.
"""

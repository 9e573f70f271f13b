"""The tray: a process of its own, which looks at an agent over its loopback endpoint.

Invariants: knows nothing of the agent but the address file and the JSON of the endpoint; decides (`contact`, `errands`,
`view`, `announcing`) without Qt, and draws without deciding; nothing waits on the GUI thread.
"""

"""One generation, seen by whoever asks a route for tokens: the site's Gateway, or a node that answers its own machine.

Invariants: no I/O, clock, randomness, Django or engine; times are the caller's monotonic seconds. What a prompt, a
token or a deadline means is decided here once, so that the two faces cannot differ. Prompt and completion text never
appears in a `repr` or an error message.
"""

"""One generation, seen from the side that asks a route for tokens: the site's Gateway, or a node's own API.

That side is called the reader here. Invariants: no I/O, clock, randomness, Django or engine; times are the caller's
monotonic seconds. The meaning of a prompt, a token and a deadline is decided here once, so that site and node cannot
differ. Prompt and completion text never appears in a `repr` or an error message.
"""

"""The OpenAI API as pure values: bytes of a request in, a `GenerationSpec` out; token events in, response bytes out.

Invariants: no I/O, clock, randomness, Django or engine; ids and times are given by the caller. The site's API and the
node-local API share every line, so that a client cannot tell them apart. Prompt and completion text never appears in an
error message or a `repr` that is logged.
"""

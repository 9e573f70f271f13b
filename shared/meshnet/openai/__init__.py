"""The OpenAI API as pure values: a request's bytes become a `GenerationSpec`, and token events become response bytes.

Invariants: no I/O, clock, randomness, Django or engine; the caller gives ids and times. The site's API and a node's own
API share all of this code, so a client sees no difference between them. Prompt and completion text never appears in an
error message or a logged `repr`.
"""

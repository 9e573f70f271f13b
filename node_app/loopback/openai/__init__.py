"""The OpenAI API of this machine's own worker, on loopback: `http://127.0.0.1:PORT/v1`.

A node that holds the whole model answers here with or without a site. Requests, answers, errors and streams are those
of the site's Gateway, by the same modules (`meshnet.openai`, `meshnet.generation`, `meshnet.vocab`).
"""

"""The OpenAI API that this node serves to its own machine, on loopback: `http://127.0.0.1:PORT/v1`.

A node that holds the whole model serves it, with or without a site. Requests, answers, errors and streams are the
same as at the site's Gateway, since both use the same modules (`meshnet.openai`, `meshnet.generation`,
`meshnet.vocab`).
"""

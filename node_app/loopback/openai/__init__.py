"""The OpenAI API of this machine's own worker, on loopback: `http://127.0.0.1:PORT/v1`.

If a node holds the whole model, it answers here, with or without a site. Requests, answers, errors and streams are the
same as at the site's Gateway, since both use the same modules (`meshnet.openai`, `meshnet.generation`,
`meshnet.vocab`).
"""

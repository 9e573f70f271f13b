"""Route Sessions of one stage that this machine opens on its own worker, without a site.

The agent plays the Gateway's part: it opens the session, feeds the prompt and takes the tokens over the worker's
bridge, by the rules that hold for every route (docs/wire.md). The worker serves these sessions beside the site's.
"""

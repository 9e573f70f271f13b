"""Composition of the site: settings, URLs and the ASGI application. Only `commands` imports it."""

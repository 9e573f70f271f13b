"""How the site is put together: settings, URLs, ASGI. Nothing but `commands` imports it."""

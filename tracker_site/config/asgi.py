"""The site's ASGI application: HTTP, and the nodes' control WebSocket.

Invariant: nothing long-lived starts at import; the background jobs start on the running loop with the first connection.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tracker_site.config.settings")
django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - needs the applications loaded
from django.conf import settings  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from tracker_site.control_plane.consumers import NodeControlConsumer  # noqa: E402
from tracker_site.ops.background import background  # noqa: E402

if TYPE_CHECKING:
    from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, Scope


async def refuse_unknown_socket(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:  # noqa: ARG001
    """Close a WebSocket to a path that has none, before accepting it (HTTP 403)."""
    await send({"type": "websocket.close", "code": 1008, "reason": ""})


# Every view is imported now; otherwise the first request would wait for it.
import_module(settings.ROOT_URLCONF)

_sockets = [
    # No cookie counts here: a node proves its key, so there is no origin to check.
    path("nodes/control", NodeControlConsumer.as_asgi()),
    re_path(r"", refuse_unknown_socket),  # type: ignore[arg-type]  # an ASGI application, not a view
]
_router = ProtocolTypeRouter({"http": django_application, "websocket": URLRouter(_sockets)})


async def application(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Serve one connection."""
    background.ensure_started()
    await _router(scope, receive, send)

"""The site's ASGI application: HTTP, and the nodes' control WebSocket.

Invariant: importing this module starts nothing long-lived; the first connection starts the background jobs on the
running loop.
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
    """Refuse with HTTP 403 a WebSocket on any path but `nodes/control`."""
    await send({"type": "websocket.close", "code": 1008, "reason": ""})


# Import every view now, so that the first request does not wait for the imports.
import_module(settings.ROOT_URLCONF)

_sockets = [
    # A node proves its key and no cookie is read, so the origin need not be checked.
    path("nodes/control", NodeControlConsumer.as_asgi()),
    re_path(r"", refuse_unknown_socket),  # type: ignore[arg-type]  # an ASGI application, not a view
]
_router = ProtocolTypeRouter({"http": django_application, "websocket": URLRouter(_sockets)})


async def application(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Serve one connection; the first one starts the background jobs."""
    background.ensure_started()
    await _router(scope, receive, send)

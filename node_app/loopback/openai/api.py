"""Builds the local API: its socket, its endpoints and its server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from meshnet.openai.http_refusals import BODY_MAX_BYTES
from node_app.loopback.access import LOOPBACK
from node_app.loopback.limits import ConnectionLimits
from node_app.loopback.openai.answering import Answering
from node_app.loopback.openai.endpoints import Endpoints
from node_app.loopback.openai.served_model import ServedModel
from node_app.loopback.server import LocalServer, bind_loopback
from node_app.settings import SettingsError

if TYPE_CHECKING:
    import socket

    from node_app.agent.agent import Agent
    from node_app.artifacts.model_file import ModelFile

# Request bodies have the same limit as at the site.
API_LIMITS: Final = ConnectionLimits(body_max_bytes=BODY_MAX_BYTES)


def bind_api(port: int) -> socket.socket:
    """Return the API's listening socket; if `port` is 0, at any free port.

    Raises:
        SettingsError: the port is taken, or this user may not listen on it.
    """
    try:
        return bind_loopback(port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise SettingsError(f"--api-port {port}: {reason}; choose another, or omit it for a free one") from error


def api_url(listening: socket.socket) -> str:
    """Return the API's base URL for clients."""
    return f"http://{LOOPBACK}:{listening.getsockname()[1]}/v1"


def build_api(listening: socket.socket, agent: Agent, model: ModelFile) -> LocalServer:
    """Build the API's server.

    Args:
        listening: the socket, made by `bind_api`; the server owns it from now on.
        agent: the agent that runs the worker.
        model: the whole model that the worker serves.
    """
    served = ServedModel(agent, model)
    answering = Answering(served, agent.sessions.local, agent.settings.name)
    endpoints = Endpoints(listening.getsockname()[1], served, answering, API_LIMITS)
    return LocalServer(listening, endpoints.serve, endpoints.refuse, API_LIMITS)

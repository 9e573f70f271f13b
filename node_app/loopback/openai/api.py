"""The local API put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from node_app.loopback.access import LOOPBACK
from node_app.loopback.openai.answering import Answering
from node_app.loopback.openai.endpoints import Endpoints
from node_app.loopback.openai.served_model import ServedModel
from node_app.loopback.server import LocalServer

if TYPE_CHECKING:
    import socket

    from node_app.agent.agent import Agent
    from node_app.artifacts.model_file import ModelFile
    from node_app.loopback.limits import ApiLimits


def api_url(listening: socket.socket) -> str:
    """Return what clients use as their base URL."""
    return f"http://{LOOPBACK}:{listening.getsockname()[1]}/v1"


def build_api(listening: socket.socket, agent: Agent, model: ModelFile, limits: ApiLimits) -> LocalServer:
    """Build the API on a bound socket, which it owns from now on.

    Args:
        listening: from `bind_loopback`.
        agent: that runs the worker.
        model: held as a whole.
        limits: of its clients.
    """
    served = ServedModel(agent, model)
    answering = Answering(served, agent.sessions.local, agent.settings.name, limits)
    endpoints = Endpoints(listening.getsockname()[1], served, answering)
    return LocalServer(listening, endpoints.serve, endpoints.refuse, limits)

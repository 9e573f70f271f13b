"""Writes the ready line, which tells the program that started the node that the node now serves.

Invariant: the line is written when the node becomes ready, and again each time after it stopped serving (with `once`
never again). A node is ready if its shard is offered and the volunteer has not paused it. If it has a site, it must
also be connected to site and relay, and the site must have stored its newest report, so that a request sent right after
the line finds the node.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

from meshnet.shard_facts import NodeState
from node_app.agent.plan import condition

if TYPE_CHECKING:
    from node_app.agent.agent import Agent
    from node_app.agent.state import AgentState


def is_ready(state: AgentState) -> bool:
    """Whether the node serves and, if it has a site, the site has stored its newest report."""
    return is_serving(state) and (not state.has_site or state.stored_revision == state.revision)


def is_serving(state: AgentState) -> bool:
    """Whether the node offers its shard, is not paused and, if it has a site, is connected to site and relay."""
    is_reachable = not state.has_site or (state.is_control_connected and state.is_data_connected)
    return condition(state) is NodeState.SERVING and is_reachable


class ReadyLine:
    """Writes the ready line to a stream when the node becomes ready.

    Args:
        layers: the shard's layers, as `BEGIN:END`.
        api_url: base URL of the local API; None if the API is not open.
        stream: gets one JSON object a line.
        once: whether the line is written only the first time.
    """

    def __init__(self, layers: str, api_url: str | None, stream: TextIO, *, once: bool) -> None:
        self._layers = layers
        self._api_url = api_url
        self._stream = stream
        self._once = once
        self._was_written = False
        self._is_standing = False

    def observe(self, agent: Agent) -> None:
        """Write the line if the node has just become ready. Call this after every change of the agent's state."""
        if self._is_standing:
            self._is_standing = is_serving(agent.state)
        elif is_ready(agent.state) and not (self._once and self._was_written):
            self._was_written = self._is_standing = True
            self._write(agent)

    def _write(self, agent: Agent) -> None:
        peers = agent.worker.peers
        line = {
            "ready": True,
            "name": agent.settings.name,
            "node_id": agent.state.node_id,
            "worker_pid": agent.state.worker.pid,
            "layers": self._layers,
            "carrier": agent.settings.carrier.value,
            "link_address": peers.address,
            "api_url": self._api_url,
        }
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()

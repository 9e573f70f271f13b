"""The ready line: tells the program that started the node that it serves.

Invariant: a line is written when the node begins to serve, and again if it had stopped and serves anew (never again
with `once`). The node serves if the shard is loaded and measured. If it has a site, the relay must also be connected
and the site must have stored the report, so that a request sent right after the line finds the node.
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
    """Whether the node serves and the site, if there is one, has stored that."""
    return is_serving(state) and (not state.has_site or state.stored_revision == state.revision)


def is_serving(state: AgentState) -> bool:
    """Whether a node that was ready still is; reports that the site has not stored yet do not matter."""
    is_reachable = not state.has_site or (state.is_control_connected and state.is_data_connected)
    return condition(state) is NodeState.SERVING and is_reachable


class ReadyLine:
    """Writes the ready line. `api_url`: of the local API; None if it is not open."""

    def __init__(self, layers: str, api_url: str | None, stream: TextIO, *, once: bool) -> None:
        self._layers = layers
        self._api_url = api_url
        self._stream = stream
        self._once = once
        self._was_written = False
        self._is_standing = False

    def observe(self, agent: Agent) -> None:
        """Write the line if it is due; called after every change of state."""
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

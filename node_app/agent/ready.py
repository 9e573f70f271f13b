"""The ready line: tells whoever started the node that it serves.

Invariant: a line is written when the node begins to serve, and again only after it had stopped to (or never again, with
`once`). Serving means: the shard is loaded and measured, and, where there is a site, the relay connection stands and
the site has stored both, so that a request sent right after the line finds the node.
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
    """Whether the node serves and the site, where there is one, knows it."""
    return is_serving(state) and (not state.has_site or state.stored_revision == state.revision)


def is_serving(state: AgentState) -> bool:
    """Whether a node that was ready still is; a report that is under way changes nothing."""
    is_reachable = not state.has_site or (state.is_control_connected and state.is_data_connected)
    return condition(state) is NodeState.SERVING and is_reachable


class ReadyLine:
    """Writes the line; told of every change of state. `api_url`: of the local API; None where it is not open."""

    def __init__(self, layers: str, api_url: str | None, stream: TextIO, *, once: bool) -> None:
        self._layers = layers
        self._api_url = api_url
        self._stream = stream
        self._once = once
        self._was_written = False
        self._is_standing = False

    def observe(self, agent: Agent) -> None:
        """Write the line where it is due."""
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

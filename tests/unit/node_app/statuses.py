"""A status as an agent gives it, to be changed field by field."""

from __future__ import annotations

import json

from node_app.status.agent_status import AgentStatus, parse_status
from node_app.ui.contact import Answered, Asked, Observation, observe

FIELDS: dict[str, object] = {
    "state": "serving",
    "reason": "",
    "node_id": "n-7f3a",
    "name": "attic",
    "site_url": "https://site.example",
    "is_control_connected": True,
    "is_data_connected": True,
    "is_paused": False,
    "model": "model.gguf",
    "architecture": "llama",
    "layer_begin": 15,
    "layer_end": 30,
    "n_layers": 30,
    "carrier": "auto",
    "api_url": "http://127.0.0.1:8700/v1",
    "worker_pid": 99,
    "sessions": 2,
    "tokens_per_s": 41.25,
    "steps": 10,
    "rows": 20,
    "resident_bytes": 223_346_688,
    "tasks": 9,
    "credits_micros": None,
}


def status_bytes(**changes: object) -> bytes:
    return json.dumps(FIELDS | changes).encode()


def a_status(**changes: object) -> AgentStatus:
    return parse_status(status_bytes(**changes))


def connected(pid: int = 11, **changes: object) -> Observation:
    return observe(Observation(), Asked(pid, Answered(200, status_bytes(**changes))))

"""Reads the agent's status from an answer of its status endpoint, for the tray and the doctor.

Invariants: pure; every field is checked for type and range, because another program may listen on the port that an
agent had; unknown fields are ignored, so that an older tray can read the status of a newer agent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from meshnet.printable import one_line
from meshnet.shard_facts import NodeState

TEXT_LENGTH_MAX: Final = 500
COUNT_MAX: Final = 2**53
LAYERS_MAX: Final = 4096
LOG_LINES_MAX: Final = 1000


class StatusError(ValueError):
    """The bytes are no status of an agent; the message names the wrong field, but not its value."""


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The status of an agent at one moment.

    Attributes:
        reason: why the node does not serve, for people; empty while all is well.
        self_test: the result of the loaded shard's self test, e.g. "passed"; empty if an older agent does not give it.
        self_test_words: figures of the self test, for people.
        notice: why the site does not use this node, for people; empty if the site named no problem.
        site_url: empty if the node serves its own machine only.
        api_url: base URL of the OpenAI API for programs of this machine; empty if it is not open.
        layer_begin, layer_end: the shard, a half-open range of the model's `n_layers` layers.
        tokens_per_s: token events a second, over the last seconds; 0 if the shard is not the tail.
        resident_bytes: memory of the worker; 0 if unknown.
        credits_micros: micro-credits that the node's owner has earned and not yet made spendable; None if unknown.
    """

    condition: NodeState
    reason: str
    self_test: str
    self_test_words: str
    notice: str
    name: str
    node_id: str
    site_url: str
    is_control_connected: bool
    is_data_connected: bool
    model: str
    architecture: str
    layer_begin: int
    layer_end: int
    n_layers: int
    api_url: str
    sessions: int
    tokens_per_s: float
    resident_bytes: int
    credits_micros: int | None


class _Fields:
    """Reads the fields of a JSON object; a field that is missing or of a wrong type or range raises StatusError."""

    def __init__(self, data: bytes) -> None:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise StatusError("it is not JSON") from error
        if not isinstance(value, dict):
            raise StatusError("it is not a JSON object")
        self._values: dict[object, object] = value

    def text(self, name: str, *, optional: bool = False) -> str:
        value = self._values.get(name, "" if optional else None)
        if value is None and optional:
            return ""
        if not isinstance(value, str):
            raise StatusError(f"{name} is not text")
        return one_line(value, TEXT_LENGTH_MAX)

    def flag(self, name: str) -> bool:
        value = self._values.get(name)
        if not isinstance(value, bool):
            raise StatusError(f"{name} is neither true nor false")
        return value

    def count(self, name: str, largest: int = COUNT_MAX) -> int:
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
            raise StatusError(f"{name} is not a number from 0 to {largest}")
        return value

    def optional_count(self, name: str) -> int | None:
        return None if self._values.get(name) is None else self.count(name)

    def rate(self, name: str) -> float:
        value = self._values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= COUNT_MAX:
            raise StatusError(f"{name} is not a rate")
        return float(value)

    def lines(self, name: str) -> tuple[str, ...]:
        value = self._values.get(name)
        if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
            raise StatusError(f"{name} is not a list of text")
        return tuple(value[-LOG_LINES_MAX:])


def parse_status(data: bytes) -> AgentStatus:
    """Return the status from the body of an answer to `/status`.

    Raises:
        StatusError: the answer is no status of an agent.
    """
    fields = _Fields(data)
    layer_begin, layer_end, n_layers = _layers(fields)
    return AgentStatus(
        condition=_condition(fields.text("state")),
        reason=fields.text("reason"),
        self_test=fields.text("self_test", optional=True),
        self_test_words=fields.text("self_test_words", optional=True),
        notice=fields.text("notice", optional=True),
        name=fields.text("name"),
        node_id=fields.text("node_id"),
        site_url=fields.text("site_url"),
        is_control_connected=fields.flag("is_control_connected"),
        is_data_connected=fields.flag("is_data_connected"),
        model=fields.text("model"),
        architecture=fields.text("architecture"),
        layer_begin=layer_begin,
        layer_end=layer_end,
        n_layers=n_layers,
        api_url=fields.text("api_url", optional=True),
        sessions=fields.count("sessions"),
        tokens_per_s=fields.rate("tokens_per_s"),
        resident_bytes=fields.count("resident_bytes"),
        credits_micros=fields.optional_count("credits_micros"),
    )


def parse_log(data: bytes) -> tuple[str, ...]:
    """Return the log lines from the body of an answer to `/log`, oldest first.

    Raises:
        StatusError: the answer is no log of an agent.
    """
    return _Fields(data).lines("lines")


def _condition(word: str) -> NodeState:
    try:
        return NodeState(word)
    except ValueError as error:
        raise StatusError("its state is not known here") from error


def _layers(fields: _Fields) -> tuple[int, int, int]:
    begin, end = fields.count("layer_begin", LAYERS_MAX), fields.count("layer_end", LAYERS_MAX)
    n_layers = fields.count("n_layers", LAYERS_MAX)
    if not begin < end <= n_layers:
        raise StatusError("the layers are out of order")
    return begin, end, n_layers

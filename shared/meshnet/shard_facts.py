"""What a shard is, how fast it is, and how peers reach its node: one definition for nodes, site and planner.

Invariants: frozen and pure. Every figure and address is the node's own claim; `tracker_site.nodes.reports` checks types
and ranges when a report comes in. A field that is added later has a default, so that a database row or a report without
it can still be read.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from meshnet.frame import Codec
from meshnet.v1 import control_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping


class Carrier(StrEnum):
    """The ways that a volunteer lets the node exchange rows with neighbouring stages.

    DIRECT: only over a connection between the two workers. RELAY: only through the relay. AUTO: directly if possible,
    otherwise through the relay.
    """

    AUTO = "auto"
    DIRECT = "direct"
    RELAY = "relay"


class NodeState(StrEnum):
    """The state that a node reports to the site."""

    LOADING = "loading"
    SERVING = "serving"
    PAUSED = "paused"
    DEGRADED = "degraded"
    SELF_TEST_FAILED = "self_test_failed"


STATE_MESSAGES: Final[Mapping[NodeState, control_pb2.NodeReport.State]] = {
    NodeState.LOADING: control_pb2.NodeReport.STATE_LOADING,
    NodeState.SERVING: control_pb2.NodeReport.STATE_SERVING,
    NodeState.PAUSED: control_pb2.NodeReport.STATE_PAUSED,
    NodeState.DEGRADED: control_pb2.NodeReport.STATE_DEGRADED,
    NodeState.SELF_TEST_FAILED: control_pb2.NodeReport.STATE_SELF_TEST_FAILED,
}


@dataclass(frozen=True, slots=True)
class ShardIdentity:
    """The facts of a loaded shard that cannot change. If one differs, another shard was loaded.

    Attributes:
        artifact_digest: SHA-256 over the model's files, 32 bytes.
        layer_begin: first layer.
        layer_end: one past the last layer.
        n_layers: number of layers of the whole model.
        contract_digest: digest of the model and its graph's settings, equal on all stages of a route.
        exact_class: serialised `ExactClass`, equal on all stages of a bit-exact route; empty if the node gave none.
        context_length: most positions of a session; 0 if unknown.
        needs_token_ids: whether its layers read token ids beside the hidden rows.
        seam_bytes_per_row: raw bytes of one row of all output tensors; 0 if the shard is a tail.
        codecs: the codecs with which it can pack the rows of a seam, beside raw f32.
        recipe: how its engine computes; empty if unknown.
    """

    artifact_digest: bytes = b""
    architecture: str = ""
    layer_begin: int = 0
    layer_end: int = 0
    n_layers: int = 0
    contract_digest: bytes = b""
    exact_class: bytes = b""
    context_length: int = 0
    vocab_size: int = 0
    needs_token_ids: bool = False
    seam_bytes_per_row: int = 0
    codecs: frozenset[Codec] = frozenset()
    recipe: str = ""

    @property
    def is_tail(self) -> bool:
        """Whether the shard holds the last layer, and so computes the logits."""
        return self.layer_end == self.n_layers


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """How fast a shard is (times in ms), and how much of it is in use (numbers of KV cells and of sessions).

    Attributes:
        decode_ms_per_layer: time of a decode step (one row) without `tail_ms`, divided by the number of layers.
        prefill_ms_per_layer: time of a full prompt chunk without `tail_ms`, per row and layer.
        tail_ms: time of the output norm and the logits of one row; 0 if the shard is not a tail.
        max_sessions: most sessions at once.
        sessions: number of open sessions.
    """

    decode_ms_per_layer: float = 0.0
    prefill_ms_per_layer: float = 0.0
    tail_ms: float = 0.0
    kv_cells_total: int = 0
    kv_cells_free: int = 0
    max_sessions: int = 0
    sessions: int = 0

    @property
    def sessions_free(self) -> int:
        """Number of sessions that the shard could open beside the open ones."""
        return max(0, self.max_sessions - self.sessions)


@dataclass(frozen=True, slots=True)
class NodeReach:
    """How other nodes and the relay reach a node.

    Attributes:
        carrier: the ways that the volunteer allows.
        link_address: host:port at which other workers may connect to its worker; empty if they may not.
        link_fingerprint: SHA-256 of the worker's certificate; empty if the worker cannot connect to other workers.
        data_connected: whether the node is connected to the relay; if not, no prompt can reach it.
        latency_ms: one-way time between node and relay; None if not measured.
        upload_bytes_per_s: upload rate of the node's line, as the volunteer stated it; 0 if not stated.
    """

    carrier: Carrier = Carrier.AUTO
    link_address: str = ""
    link_fingerprint: bytes = b""
    data_connected: bool = False
    latency_ms: float | None = None
    upload_bytes_per_s: int = 0

    @property
    def has_link(self) -> bool:
        """Whether the node's worker has a certificate; a connection of two workers needs one at both ends."""
        return bool(self.link_fingerprint)

    @property
    def is_dialable(self) -> bool:
        """Whether other workers may open a connection to the node's worker."""
        return bool(self.link_address) and self.carrier is not Carrier.RELAY


Facts = TypeVar("Facts", ShardIdentity, ShardFigures)
_HINTS: Final[Mapping[object, Mapping[str, object]]] = {
    kind: get_type_hints(kind) for kind in (ShardIdentity, ShardFigures)
}


def facts_to_json(*facts: ShardIdentity | ShardFigures) -> dict[str, object]:
    """Return the fields of all arguments as one JSON object: bytes as hex, codecs as a sorted list of labels."""
    return {field.name: _to_plain(getattr(one, field.name)) for one in facts for field in fields(one)}


def facts_from_json(kind: type[Facts], document: Mapping[str, Any]) -> Facts:
    """Return the facts that `facts_to_json` wrote; missing fields get their defaults, unknown ones are ignored."""
    hints = _HINTS[kind]
    known = {name: _from_plain(hints[name], document[name]) for name in hints.keys() & document.keys()}
    return kind(**known)


def _to_plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    return sorted(codec.label for codec in value) if isinstance(value, frozenset) else value


def _from_plain(hint: object, value: Any) -> Any:  # noqa: ANN401 - JSON of any type
    if hint is bytes:
        return bytes.fromhex(value)
    return frozenset(Codec[label.upper()] for label in value) if hint == frozenset[Codec] else value

"""What a shard is, how fast it is, and how peers reach its node: one definition for nodes, site and planner.

Invariants: frozen and pure. Every figure and address is the node's own claim; `tracker_site.nodes.reports` checks types
and ranges when a report comes in. A fact that is added later has a default, so that a row or a report without it can
still be read.
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
    """Which ways a volunteer lets the node exchange rows with its neighbours on a route."""

    AUTO = "auto"
    DIRECT = "direct"
    RELAY = "relay"


class NodeState(StrEnum):
    """What a node says of itself."""

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
    """What a loaded shard is. If any of it changes, another shard was loaded.

    Attributes:
        artifact_digest: SHA-256 over the model's files, 32 bytes.
        layer_begin: first layer.
        layer_end: one past the last layer.
        n_layers: layers of the whole model.
        contract_digest: equal on all stages of a route.
        exact_class: serialised `ExactClass`, equal on all stages of an exact route; empty if the node gave none.
        context_length: positions of a session; 0 if unknown.
        needs_token_ids: its layers read token ids beside the hidden rows.
        seam_bytes_per_row: raw bytes of all output tensors of one row; 0 on the tail.
        codecs: how it can pack rows between stages, beside raw.
        recipe: engine and arithmetic, equal on a route's stages unless the model's may be mixed; empty if unknown.
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
        """Whether the shard owns the output head."""
        return self.layer_end == self.n_layers


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """How fast a shard is and how much of it is in use: times in ms, KV cells and sessions as counts.

    Attributes:
        decode_ms_per_layer: one row through one layer.
        prefill_ms_per_layer: one row of a full prompt chunk through one layer.
        tail_ms: output norm and head, one row; 0 if the shard does not own them.
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
        """Sessions that the shard could open beside those that run."""
        return max(0, self.max_sessions - self.sessions)


@dataclass(frozen=True, slots=True)
class NodeReach:
    """How other nodes and the relay reach a node.

    Attributes:
        carrier: the ways that the volunteer allows.
        link_address: host:port that peers may dial; empty if none may.
        link_fingerprint: SHA-256 of the worker's certificate; empty if the worker has no link to peers.
        data_connected: the connection to the relay stands; without it no prompt can reach the node.
        latency_ms: one way to the relay; None if not measured.
        upload_bytes_per_s: what the line takes in, as its owner says; 0 if not said.
    """

    carrier: Carrier = Carrier.AUTO
    link_address: str = ""
    link_fingerprint: bytes = b""
    data_connected: bool = False
    latency_ms: float | None = None
    upload_bytes_per_s: int = 0

    @property
    def has_link(self) -> bool:
        """Whether its worker can speak to peers at all: one without a certificate cannot be known by them."""
        return bool(self.link_fingerprint)

    @property
    def is_dialable(self) -> bool:
        """Whether a peer could connect to the node."""
        return bool(self.link_address) and self.carrier is not Carrier.RELAY


Facts = TypeVar("Facts", ShardIdentity, ShardFigures)
_HINTS: Final[Mapping[object, Mapping[str, object]]] = {
    kind: get_type_hints(kind) for kind in (ShardIdentity, ShardFigures)
}


def facts_to_json(*facts: ShardIdentity | ShardFigures) -> dict[str, object]:
    """Return the fields of all arguments as one JSON object; bytes become hex, codecs their sorted labels."""
    return {field.name: _to_plain(getattr(one, field.name)) for one in facts for field in fields(one)}


def facts_from_json(kind: type[Facts], document: Mapping[str, Any]) -> Facts:
    """Return the facts that `facts_to_json` wrote; a field that is missing has its default, others are ignored."""
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

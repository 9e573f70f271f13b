"""Strict parsing of a node's messages: reports, sessions and failure codes.

Invariants: pure. Every count, length, digest, range and figure of a report is checked here and nowhere else. Parsed
values are frozen. Figures are the node's own claims. Source: control.proto; docs/wire.md, What must match.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.constants import PORT_MAX, SESSION_ID_BYTES
from meshnet.frame import Codec
from meshnet.frame.edge_messages import CODE_PATTERN
from meshnet.ids import SessionKey
from meshnet.printable import one_line
from meshnet.shard_facts import STATE_MESSAGES, Carrier, NodeReach, ShardFigures, ShardIdentity
from meshnet.v1 import control_pb2, frame_pb2
from tracker_site.nodes.refusals import ControlError, ControlRefusalCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.shard_facts import NodeState
    from meshnet.v1 import session_pb2

DIGEST_BYTES: Final = 32
MAX_SHARDS: Final = 16
MAX_OPEN_SESSIONS: Final = 4096
MAX_LAYERS: Final = 4096
MAX_COUNT: Final = 2**31 - 1  # largest integer of a database column
MAX_MS: Final = 3_600_000.0  # one hour; a longer time cannot be a measurement
MAX_RATE: Final = 10**12  # bytes per second; more than any line carries
MAX_EXACT_CLASS_BYTES: Final = 2048
MAX_CODECS: Final = 16
RECIPE: Final = re.compile(r"([a-z0-9][a-z0-9 ._-]{0,63})?")
KNOWN_CODECS: Final = frozenset(Codec) - {Codec.RAW}
ELEMENT_BYTES: Final = {frame_pb2.DTYPE_F32: 4, frame_pb2.DTYPE_F16: 2, frame_pb2.DTYPE_BF16: 2, frame_pb2.DTYPE_I32: 4}
STATES: Final = {message: state for state, message in STATE_MESSAGES.items()}
MAX_LINK_ADDRESS_LENGTH: Final = 128
HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
CARRIERS: Final = frozenset(Carrier)


@dataclass(frozen=True, slots=True)
class Report:
    """A node's report, checked.

    Attributes:
        reason: text for people that says why the node does not serve; empty if it serves.
        report_id: number to confirm when the report is stored; 0 if the node wants no confirmation.
    """

    state: NodeState
    reason: str
    reach: NodeReach
    shards: tuple[tuple[ShardIdentity, ShardFigures], ...]
    report_id: int

    @property
    def identities(self) -> frozenset[ShardIdentity]:
        """The loaded shards without their figures."""
        return frozenset(identity for identity, _ in self.shards)


def parse_report(message: control_pb2.NodeReport) -> Report:
    """Check a report and convert it.

    Raises:
        ControlError: MALFORMED, naming the field at fault.
    """
    _require(message.state in STATES, "state")
    _require(len(message.shards) <= MAX_SHARDS, "shards")
    _require(not message.link_address or _is_dialable(message.link_address), "link_address")
    _require(len(message.link_fingerprint) in {0, DIGEST_BYTES}, "link_fingerprint")
    _require(message.carrier in CARRIERS, "carrier")
    latency_ms = message.latency_ms if message.HasField("latency_ms") else None
    _require(latency_ms is None or (math.isfinite(latency_ms) and 0.0 <= latency_ms <= MAX_MS), "latency_ms")
    _require(message.upload_bytes_per_s <= MAX_RATE, "upload_bytes_per_s")
    shards = tuple(_parse_shard(shard) for shard in message.shards)
    ranges = {(shard.artifact_digest, shard.layer_begin, shard.layer_end) for shard, _ in shards}
    _require(len(ranges) == len(shards), "shards")
    return Report(
        state=STATES[message.state],
        reason=one_line(message.reason),
        reach=NodeReach(
            carrier=Carrier(message.carrier),
            link_address=one_line(message.link_address),
            link_fingerprint=message.link_fingerprint,
            data_connected=message.data_connected,
            latency_ms=latency_ms,
            upload_bytes_per_s=message.upload_bytes_per_s,
        ),
        shards=shards,
        report_id=message.report_id,
    )


def _is_dialable(address: str) -> bool:
    """Whether other volunteers' workers may be told to dial the address: host:port of one machine.

    A link-local address is refused, since it means another machine to each worker, for example the metadata service of
    its cloud.
    """
    host, _, port = address.rpartition(":")
    if len(address) > MAX_LINK_ADDRESS_LENGTH or not port.isascii() or not port.isdigit():
        return False
    if not 1 <= int(port) <= PORT_MAX:
        return False
    try:
        number = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return HOST_NAME.fullmatch(host) is not None
    return number.is_loopback or not (
        number.is_multicast or number.is_link_local or number.is_unspecified or number.is_reserved
    )


def parse_session_refs(references: Iterable[control_pb2.SessionRef]) -> frozenset[SessionKey]:
    """Return the sessions that a node lists.

    Raises:
        ControlError: MALFORMED, if a session is malformed or there are more than MAX_OPEN_SESSIONS.
    """
    keys = set()
    for reference in references:
        keys.add(parse_session(reference.session, reference.epoch))
        _require(len(keys) <= MAX_OPEN_SESSIONS, "open_sessions")
    return frozenset(keys)


def parse_session(session: bytes, epoch: int) -> SessionKey:
    """Return the key of one session and epoch.

    Raises:
        ControlError: MALFORMED, if the id is not SESSION_ID_BYTES long or the epoch is 0.
    """
    _require(len(session) == SESSION_ID_BYTES, "session")
    _require(epoch >= 1, "epoch")
    return SessionKey(session, epoch)


def parse_code(code: str) -> str:
    """Return a failure code unchanged; clients of the API get it as it is.

    Raises:
        ControlError: MALFORMED, if it does not fit CODE_PATTERN.
    """
    _require(CODE_PATTERN.fullmatch(code) is not None, "code")
    return code


def _parse_shard(shard: control_pb2.ShardReport) -> tuple[ShardIdentity, ShardFigures]:
    _require(len(shard.artifact_digest) == DIGEST_BYTES, "artifact_digest")
    return _parse_identity(shard.artifact_digest, shard.contract), _parse_figures(shard)


def _parse_identity(artifact_digest: bytes, contract: session_pb2.BoundaryContract) -> ShardIdentity:
    layers = contract.layers
    _require(layers.layer_begin < layers.layer_end <= contract.n_layers <= MAX_LAYERS, "layers")
    _require(len(contract.contract_digest) == DIGEST_BYTES, "contract_digest")
    _require(0 < len(contract.architecture) <= 64, "architecture")
    _require(0 < contract.context_length <= MAX_COUNT, "context_length")
    _require(0 < contract.vocab_size <= MAX_COUNT, "vocab_size")
    exact_class = (
        contract.exact_class.SerializeToString(deterministic=True) if contract.HasField("exact_class") else b""
    )
    _require(len(exact_class) <= MAX_EXACT_CLASS_BYTES, "exact_class")
    _require(len(contract.codecs) <= MAX_CODECS, "codecs")
    _require(RECIPE.fullmatch(contract.recipe) is not None, "recipe")
    return ShardIdentity(
        artifact_digest=artifact_digest,
        architecture=one_line(contract.architecture),
        layer_begin=layers.layer_begin,
        layer_end=layers.layer_end,
        n_layers=contract.n_layers,
        contract_digest=contract.contract_digest,
        exact_class=exact_class,
        context_length=contract.context_length,
        vocab_size=contract.vocab_size,
        needs_token_ids=contract.needs_token_ids,
        seam_bytes_per_row=_seam_bytes_per_row(contract),
        # A newer worker may name codecs that this site does not know; they are left out.
        codecs=frozenset(Codec(int(one)) for one in contract.codecs if int(one) in KNOWN_CODECS),
        recipe=contract.recipe,
    )


def _seam_bytes_per_row(contract: session_pb2.BoundaryContract) -> int:
    _require(len(contract.outputs) <= 8 and len(contract.inputs) <= 8, "outputs")
    _require(all(tensor.dtype in ELEMENT_BYTES for tensor in contract.outputs), "outputs")
    row_bytes = sum(tensor.elements_per_row * ELEMENT_BYTES[tensor.dtype] for tensor in contract.outputs)
    _require(row_bytes <= MAX_COUNT, "outputs")
    return row_bytes


def _parse_figures(shard: control_pb2.ShardReport) -> ShardFigures:
    for name in ("decode_ms_per_layer", "prefill_ms_per_layer", "tail_ms"):
        value = getattr(shard, name)
        _require(math.isfinite(value) and 0.0 <= value <= MAX_MS, name)
    for name in ("kv_cells_total", "max_sessions", "sessions"):
        _require(getattr(shard, name) <= MAX_COUNT, name)
    _require(shard.kv_cells_free <= shard.kv_cells_total, "kv_cells_free")
    return ShardFigures(
        decode_ms_per_layer=shard.decode_ms_per_layer,
        prefill_ms_per_layer=shard.prefill_ms_per_layer,
        tail_ms=shard.tail_ms,
        kv_cells_total=shard.kv_cells_total,
        kv_cells_free=shard.kv_cells_free,
        max_sessions=shard.max_sessions,
        sessions=shard.sessions,
    )


def _require(condition: bool, field: str) -> None:
    if not condition:
        raise ControlError(ControlRefusalCode.MALFORMED, f"{field} is missing or out of range")

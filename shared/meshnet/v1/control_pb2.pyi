from meshnet.v1 import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ControlChallenge(_message.Message):
    __slots__ = ("nonce", "wire_version_min", "wire_version_max")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    WIRE_VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    WIRE_VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    wire_version_min: int
    wire_version_max: int
    def __init__(self, nonce: _Optional[bytes] = ..., wire_version_min: _Optional[int] = ..., wire_version_max: _Optional[int] = ...) -> None: ...

class SessionRef(_message.Message):
    __slots__ = ("session", "epoch")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ...) -> None: ...

class ControlHello(_message.Message):
    __slots__ = ("public_key", "signature", "wire_version_min", "wire_version_max", "software_version", "open_sessions")
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    WIRE_VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    WIRE_VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    public_key: bytes
    signature: bytes
    wire_version_min: int
    wire_version_max: int
    software_version: str
    open_sessions: _containers.RepeatedCompositeFieldContainer[SessionRef]
    def __init__(self, public_key: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., wire_version_min: _Optional[int] = ..., wire_version_max: _Optional[int] = ..., software_version: _Optional[str] = ..., open_sessions: _Optional[_Iterable[_Union[SessionRef, _Mapping]]] = ...) -> None: ...

class ControlWelcome(_message.Message):
    __slots__ = ("node_id", "heartbeat_ms", "lease_ms", "relay_url", "site_public_key", "keep")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    RELAY_URL_FIELD_NUMBER: _ClassVar[int]
    SITE_PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    heartbeat_ms: int
    lease_ms: int
    relay_url: str
    site_public_key: bytes
    keep: _containers.RepeatedCompositeFieldContainer[SessionRef]
    def __init__(self, node_id: _Optional[str] = ..., heartbeat_ms: _Optional[int] = ..., lease_ms: _Optional[int] = ..., relay_url: _Optional[str] = ..., site_public_key: _Optional[bytes] = ..., keep: _Optional[_Iterable[_Union[SessionRef, _Mapping]]] = ...) -> None: ...

class ShardReport(_message.Message):
    __slots__ = ("artifact_digest", "contract", "decode_ms_per_layer", "prefill_ms_per_layer", "tail_ms", "kv_cells_total", "kv_cells_free", "max_sessions", "sessions")
    ARTIFACT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    DECODE_MS_PER_LAYER_FIELD_NUMBER: _ClassVar[int]
    PREFILL_MS_PER_LAYER_FIELD_NUMBER: _ClassVar[int]
    TAIL_MS_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_FREE_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    artifact_digest: bytes
    contract: _session_pb2.BoundaryContract
    decode_ms_per_layer: float
    prefill_ms_per_layer: float
    tail_ms: float
    kv_cells_total: int
    kv_cells_free: int
    max_sessions: int
    sessions: int
    def __init__(self, artifact_digest: _Optional[bytes] = ..., contract: _Optional[_Union[_session_pb2.BoundaryContract, _Mapping]] = ..., decode_ms_per_layer: _Optional[float] = ..., prefill_ms_per_layer: _Optional[float] = ..., tail_ms: _Optional[float] = ..., kv_cells_total: _Optional[int] = ..., kv_cells_free: _Optional[int] = ..., max_sessions: _Optional[int] = ..., sessions: _Optional[int] = ...) -> None: ...

class NodeReport(_message.Message):
    __slots__ = ("state", "shards", "reason", "link_address", "link_fingerprint", "carrier", "data_connected", "report_id", "latency_ms", "upload_bytes_per_s")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[NodeReport.State]
        STATE_LOADING: _ClassVar[NodeReport.State]
        STATE_SERVING: _ClassVar[NodeReport.State]
        STATE_PAUSED: _ClassVar[NodeReport.State]
        STATE_DEGRADED: _ClassVar[NodeReport.State]
        STATE_SELF_TEST_FAILED: _ClassVar[NodeReport.State]
    STATE_UNSPECIFIED: NodeReport.State
    STATE_LOADING: NodeReport.State
    STATE_SERVING: NodeReport.State
    STATE_PAUSED: NodeReport.State
    STATE_DEGRADED: NodeReport.State
    STATE_SELF_TEST_FAILED: NodeReport.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LINK_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LINK_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CARRIER_FIELD_NUMBER: _ClassVar[int]
    DATA_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    REPORT_ID_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    state: NodeReport.State
    shards: _containers.RepeatedCompositeFieldContainer[ShardReport]
    reason: str
    link_address: str
    link_fingerprint: bytes
    carrier: str
    data_connected: bool
    report_id: int
    latency_ms: float
    upload_bytes_per_s: int
    def __init__(self, state: _Optional[_Union[NodeReport.State, str]] = ..., shards: _Optional[_Iterable[_Union[ShardReport, _Mapping]]] = ..., reason: _Optional[str] = ..., link_address: _Optional[str] = ..., link_fingerprint: _Optional[bytes] = ..., carrier: _Optional[str] = ..., data_connected: _Optional[bool] = ..., report_id: _Optional[int] = ..., latency_ms: _Optional[float] = ..., upload_bytes_per_s: _Optional[int] = ...) -> None: ...

class ReportStored(_message.Message):
    __slots__ = ("report_id", "earned_micros")
    REPORT_ID_FIELD_NUMBER: _ClassVar[int]
    EARNED_MICROS_FIELD_NUMBER: _ClassVar[int]
    report_id: int
    earned_micros: int
    def __init__(self, report_id: _Optional[int] = ..., earned_micros: _Optional[int] = ...) -> None: ...

class OpenStage(_message.Message):
    __slots__ = ("request_id", "spec", "ticket", "artifact_digest", "link_fingerprint")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LINK_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    spec: _session_pb2.SessionSpec
    ticket: bytes
    artifact_digest: bytes
    link_fingerprint: bytes
    def __init__(self, request_id: _Optional[int] = ..., spec: _Optional[_Union[_session_pb2.SessionSpec, _Mapping]] = ..., ticket: _Optional[bytes] = ..., artifact_digest: _Optional[bytes] = ..., link_fingerprint: _Optional[bytes] = ...) -> None: ...

class StageOpened(_message.Message):
    __slots__ = ("request_id", "contract")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    contract: _session_pb2.BoundaryContract
    def __init__(self, request_id: _Optional[int] = ..., contract: _Optional[_Union[_session_pb2.BoundaryContract, _Mapping]] = ...) -> None: ...

class StageRefused(_message.Message):
    __slots__ = ("request_id", "code", "message")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    code: str
    message: str
    def __init__(self, request_id: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class CloseStage(_message.Message):
    __slots__ = ("session", "epoch", "reason")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    reason: str
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class StageEnded(_message.Message):
    __slots__ = ("session", "epoch", "stage", "code", "message")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    stage: int
    code: str
    message: str
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., stage: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class NodeMessage(_message.Message):
    __slots__ = ("hello", "report", "opened", "refused", "ended")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    hello: ControlHello
    report: NodeReport
    opened: StageOpened
    refused: StageRefused
    ended: StageEnded
    def __init__(self, hello: _Optional[_Union[ControlHello, _Mapping]] = ..., report: _Optional[_Union[NodeReport, _Mapping]] = ..., opened: _Optional[_Union[StageOpened, _Mapping]] = ..., refused: _Optional[_Union[StageRefused, _Mapping]] = ..., ended: _Optional[_Union[StageEnded, _Mapping]] = ...) -> None: ...

class SiteMessage(_message.Message):
    __slots__ = ("challenge", "welcome", "open", "close", "refusal", "stored", "notice")
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    challenge: ControlChallenge
    welcome: ControlWelcome
    open: OpenStage
    close: CloseStage
    refusal: ControlRefusal
    stored: ReportStored
    notice: SiteNotice
    def __init__(self, challenge: _Optional[_Union[ControlChallenge, _Mapping]] = ..., welcome: _Optional[_Union[ControlWelcome, _Mapping]] = ..., open: _Optional[_Union[OpenStage, _Mapping]] = ..., close: _Optional[_Union[CloseStage, _Mapping]] = ..., refusal: _Optional[_Union[ControlRefusal, _Mapping]] = ..., stored: _Optional[_Union[ReportStored, _Mapping]] = ..., notice: _Optional[_Union[SiteNotice, _Mapping]] = ...) -> None: ...

class SiteNotice(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ControlRefusal(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

from meshnet.v1 import frame_pb2 as _frame_pb2
from meshnet.v1 import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EngineKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENGINE_KIND_UNSPECIFIED: _ClassVar[EngineKind]
    ENGINE_KIND_FAKE: _ClassVar[EngineKind]
    ENGINE_KIND_LLAMA: _ClassVar[EngineKind]
ENGINE_KIND_UNSPECIFIED: EngineKind
ENGINE_KIND_FAKE: EngineKind
ENGINE_KIND_LLAMA: EngineKind

class FakeModel(_message.Message):
    __slots__ = ("n_layers", "width", "step_us", "step_fixed_us")
    N_LAYERS_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    STEP_US_FIELD_NUMBER: _ClassVar[int]
    STEP_FIXED_US_FIELD_NUMBER: _ClassVar[int]
    n_layers: int
    width: int
    step_us: int
    step_fixed_us: int
    def __init__(self, n_layers: _Optional[int] = ..., width: _Optional[int] = ..., step_us: _Optional[int] = ..., step_fixed_us: _Optional[int] = ...) -> None: ...

class LoadRequest(_message.Message):
    __slots__ = ("engine", "gguf_path", "fake", "layers", "context_length", "kv_cells", "max_sessions", "threads", "ubatch", "artifact_digest", "flash_attention", "turn_path", "profile", "model_folder", "keep_rewind_states")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    GGUF_PATH_FIELD_NUMBER: _ClassVar[int]
    FAKE_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    UBATCH_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FLASH_ATTENTION_FIELD_NUMBER: _ClassVar[int]
    TURN_PATH_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FOLDER_FIELD_NUMBER: _ClassVar[int]
    KEEP_REWIND_STATES_FIELD_NUMBER: _ClassVar[int]
    engine: EngineKind
    gguf_path: str
    fake: FakeModel
    layers: _session_pb2.LayerRange
    context_length: int
    kv_cells: int
    max_sessions: int
    threads: int
    ubatch: int
    artifact_digest: bytes
    flash_attention: bool
    turn_path: str
    profile: bool
    model_folder: str
    keep_rewind_states: bool
    def __init__(self, engine: _Optional[_Union[EngineKind, str]] = ..., gguf_path: _Optional[str] = ..., fake: _Optional[_Union[FakeModel, _Mapping]] = ..., layers: _Optional[_Union[_session_pb2.LayerRange, _Mapping]] = ..., context_length: _Optional[int] = ..., kv_cells: _Optional[int] = ..., max_sessions: _Optional[int] = ..., threads: _Optional[int] = ..., ubatch: _Optional[int] = ..., artifact_digest: _Optional[bytes] = ..., flash_attention: _Optional[bool] = ..., turn_path: _Optional[str] = ..., profile: _Optional[bool] = ..., model_folder: _Optional[str] = ..., keep_rewind_states: _Optional[bool] = ...) -> None: ...

class LoadProgress(_message.Message):
    __slots__ = ("state", "fraction", "contract", "weights_bytes", "kv_bytes", "compute_bytes", "nextn_bytes")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[LoadProgress.State]
        STATE_LOADING: _ClassVar[LoadProgress.State]
        STATE_READY: _ClassVar[LoadProgress.State]
    STATE_UNSPECIFIED: LoadProgress.State
    STATE_LOADING: LoadProgress.State
    STATE_READY: LoadProgress.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    KV_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_BYTES_FIELD_NUMBER: _ClassVar[int]
    NEXTN_BYTES_FIELD_NUMBER: _ClassVar[int]
    state: LoadProgress.State
    fraction: float
    contract: _session_pb2.BoundaryContract
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    nextn_bytes: int
    def __init__(self, state: _Optional[_Union[LoadProgress.State, str]] = ..., fraction: _Optional[float] = ..., contract: _Optional[_Union[_session_pb2.BoundaryContract, _Mapping]] = ..., weights_bytes: _Optional[int] = ..., kv_bytes: _Optional[int] = ..., compute_bytes: _Optional[int] = ..., nextn_bytes: _Optional[int] = ...) -> None: ...

class UnloadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnloadReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("version_json", "devices_json", "link_address", "link_fingerprint")
    VERSION_JSON_FIELD_NUMBER: _ClassVar[int]
    DEVICES_JSON_FIELD_NUMBER: _ClassVar[int]
    LINK_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LINK_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    version_json: str
    devices_json: str
    link_address: str
    link_fingerprint: bytes
    def __init__(self, version_json: _Optional[str] = ..., devices_json: _Optional[str] = ..., link_address: _Optional[str] = ..., link_fingerprint: _Optional[bytes] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: _session_pb2.SessionSpec
    def __init__(self, spec: _Optional[_Union[_session_pb2.SessionSpec, _Mapping]] = ...) -> None: ...

class OpenSessionReply(_message.Message):
    __slots__ = ("accepted", "code", "message", "contract")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    code: str
    message: str
    contract: _session_pb2.BoundaryContract
    def __init__(self, accepted: _Optional[bool] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., contract: _Optional[_Union[_session_pb2.BoundaryContract, _Mapping]] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session", "epoch", "reason")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    reason: str
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class CloseSessionReply(_message.Message):
    __slots__ = ("was_open",)
    WAS_OPEN_FIELD_NUMBER: _ClassVar[int]
    was_open: bool
    def __init__(self, was_open: _Optional[bool] = ...) -> None: ...

class SessionStatus(_message.Message):
    __slots__ = ("session", "epoch", "stage", "position", "kv_cells", "idle_ms")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    stage: int
    position: int
    kv_cells: int
    idle_ms: int
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., stage: _Optional[int] = ..., position: _Optional[int] = ..., kv_cells: _Optional[int] = ..., idle_ms: _Optional[int] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("ready", "contract", "sessions", "kv_cells_total", "kv_cells_reserved", "frames_received", "frames_repeated", "frames_stray", "frames_refused", "steps", "rows", "compute_us", "resident_bytes", "last_step_age_ms", "computing", "queued_frames", "queued_bytes")
    READY_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_RESERVED_FIELD_NUMBER: _ClassVar[int]
    FRAMES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    FRAMES_REPEATED_FIELD_NUMBER: _ClassVar[int]
    FRAMES_STRAY_FIELD_NUMBER: _ClassVar[int]
    FRAMES_REFUSED_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_US_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    COMPUTING_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FRAMES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_BYTES_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    contract: _session_pb2.BoundaryContract
    sessions: _containers.RepeatedCompositeFieldContainer[SessionStatus]
    kv_cells_total: int
    kv_cells_reserved: int
    frames_received: int
    frames_repeated: int
    frames_stray: int
    frames_refused: int
    steps: int
    rows: int
    compute_us: int
    resident_bytes: int
    last_step_age_ms: int
    computing: bool
    queued_frames: int
    queued_bytes: int
    def __init__(self, ready: _Optional[bool] = ..., contract: _Optional[_Union[_session_pb2.BoundaryContract, _Mapping]] = ..., sessions: _Optional[_Iterable[_Union[SessionStatus, _Mapping]]] = ..., kv_cells_total: _Optional[int] = ..., kv_cells_reserved: _Optional[int] = ..., frames_received: _Optional[int] = ..., frames_repeated: _Optional[int] = ..., frames_stray: _Optional[int] = ..., frames_refused: _Optional[int] = ..., steps: _Optional[int] = ..., rows: _Optional[int] = ..., compute_us: _Optional[int] = ..., resident_bytes: _Optional[int] = ..., last_step_age_ms: _Optional[int] = ..., computing: _Optional[bool] = ..., queued_frames: _Optional[int] = ..., queued_bytes: _Optional[int] = ...) -> None: ...

class WatchStatusRequest(_message.Message):
    __slots__ = ("interval_ms",)
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    interval_ms: int
    def __init__(self, interval_ms: _Optional[int] = ...) -> None: ...

class ProbeRequest(_message.Message):
    __slots__ = ("token_ids", "tensors", "want_outputs", "step_rows")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    WANT_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    STEP_ROWS_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    tensors: _containers.RepeatedCompositeFieldContainer[_frame_pb2.Tensor]
    want_outputs: bool
    step_rows: int
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., tensors: _Optional[_Iterable[_Union[_frame_pb2.Tensor, _Mapping]]] = ..., want_outputs: _Optional[bool] = ..., step_rows: _Optional[int] = ...) -> None: ...

class ProbeReply(_message.Message):
    __slots__ = ("outputs", "compute_us", "output_digest")
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_US_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.RepeatedCompositeFieldContainer[_frame_pb2.Tensor]
    compute_us: int
    output_digest: bytes
    def __init__(self, outputs: _Optional[_Iterable[_Union[_frame_pb2.Tensor, _Mapping]]] = ..., compute_us: _Optional[int] = ..., output_digest: _Optional[bytes] = ...) -> None: ...

class BridgeMessage(_message.Message):
    __slots__ = ("frame", "edge")
    FRAME_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    frame: _frame_pb2.Frame
    edge: _session_pb2.EdgeMessage
    def __init__(self, frame: _Optional[_Union[_frame_pb2.Frame, _Mapping]] = ..., edge: _Optional[_Union[_session_pb2.EdgeMessage, _Mapping]] = ...) -> None: ...

class BridgeBatch(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[BridgeMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[BridgeMessage, _Mapping]]] = ...) -> None: ...

from meshnet.v1 import frame_pb2 as _frame_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason

class LayerRange(_message.Message):
    __slots__ = ("layer_begin", "layer_end")
    LAYER_BEGIN_FIELD_NUMBER: _ClassVar[int]
    LAYER_END_FIELD_NUMBER: _ClassVar[int]
    layer_begin: int
    layer_end: int
    def __init__(self, layer_begin: _Optional[int] = ..., layer_end: _Optional[int] = ...) -> None: ...

class TensorSpec(_message.Message):
    __slots__ = ("name", "dtype", "elements_per_row")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_PER_ROW_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: _frame_pb2.DType
    elements_per_row: int
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[_frame_pb2.DType, str]] = ..., elements_per_row: _Optional[int] = ...) -> None: ...

class ExactClass(_message.Message):
    __slots__ = ("pin", "backend", "repack", "flash_attention", "kv_type_k", "kv_type_v", "ubatch", "cpu_features", "threads")
    PIN_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    REPACK_FIELD_NUMBER: _ClassVar[int]
    FLASH_ATTENTION_FIELD_NUMBER: _ClassVar[int]
    KV_TYPE_K_FIELD_NUMBER: _ClassVar[int]
    KV_TYPE_V_FIELD_NUMBER: _ClassVar[int]
    UBATCH_FIELD_NUMBER: _ClassVar[int]
    CPU_FEATURES_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    pin: str
    backend: str
    repack: bool
    flash_attention: bool
    kv_type_k: str
    kv_type_v: str
    ubatch: int
    cpu_features: str
    threads: int
    def __init__(self, pin: _Optional[str] = ..., backend: _Optional[str] = ..., repack: _Optional[bool] = ..., flash_attention: _Optional[bool] = ..., kv_type_k: _Optional[str] = ..., kv_type_v: _Optional[str] = ..., ubatch: _Optional[int] = ..., cpu_features: _Optional[str] = ..., threads: _Optional[int] = ...) -> None: ...

class BoundaryContract(_message.Message):
    __slots__ = ("layers", "n_layers", "architecture", "inputs", "outputs", "needs_token_ids", "vocab_size", "context_length", "contract_digest", "exact_class", "codecs", "gives_token_ids", "recipe")
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    N_LAYERS_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXACT_CLASS_FIELD_NUMBER: _ClassVar[int]
    CODECS_FIELD_NUMBER: _ClassVar[int]
    GIVES_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    RECIPE_FIELD_NUMBER: _ClassVar[int]
    layers: LayerRange
    n_layers: int
    architecture: str
    inputs: _containers.RepeatedCompositeFieldContainer[TensorSpec]
    outputs: _containers.RepeatedCompositeFieldContainer[TensorSpec]
    needs_token_ids: bool
    vocab_size: int
    context_length: int
    contract_digest: bytes
    exact_class: ExactClass
    codecs: _containers.RepeatedScalarFieldContainer[_frame_pb2.Codec]
    gives_token_ids: bool
    recipe: str
    def __init__(self, layers: _Optional[_Union[LayerRange, _Mapping]] = ..., n_layers: _Optional[int] = ..., architecture: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[TensorSpec, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[TensorSpec, _Mapping]]] = ..., needs_token_ids: _Optional[bool] = ..., vocab_size: _Optional[int] = ..., context_length: _Optional[int] = ..., contract_digest: _Optional[bytes] = ..., exact_class: _Optional[_Union[ExactClass, _Mapping]] = ..., codecs: _Optional[_Iterable[_Union[_frame_pb2.Codec, str]]] = ..., gives_token_ids: _Optional[bool] = ..., recipe: _Optional[str] = ...) -> None: ...

class EdgeSpec(_message.Message):
    __slots__ = ("from_stage", "to_stage", "carrier", "peer_address", "peer_fingerprint", "dial", "window_frames", "window_bytes", "codec")
    class Carrier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CARRIER_UNSPECIFIED: _ClassVar[EdgeSpec.Carrier]
        CARRIER_LOCAL: _ClassVar[EdgeSpec.Carrier]
        CARRIER_DIRECT: _ClassVar[EdgeSpec.Carrier]
        CARRIER_RELAY: _ClassVar[EdgeSpec.Carrier]
    CARRIER_UNSPECIFIED: EdgeSpec.Carrier
    CARRIER_LOCAL: EdgeSpec.Carrier
    CARRIER_DIRECT: EdgeSpec.Carrier
    CARRIER_RELAY: EdgeSpec.Carrier
    FROM_STAGE_FIELD_NUMBER: _ClassVar[int]
    TO_STAGE_FIELD_NUMBER: _ClassVar[int]
    CARRIER_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PEER_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    DIAL_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FRAMES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    from_stage: int
    to_stage: int
    carrier: EdgeSpec.Carrier
    peer_address: str
    peer_fingerprint: bytes
    dial: bool
    window_frames: int
    window_bytes: int
    codec: _frame_pb2.Codec
    def __init__(self, from_stage: _Optional[int] = ..., to_stage: _Optional[int] = ..., carrier: _Optional[_Union[EdgeSpec.Carrier, str]] = ..., peer_address: _Optional[str] = ..., peer_fingerprint: _Optional[bytes] = ..., dial: _Optional[bool] = ..., window_frames: _Optional[int] = ..., window_bytes: _Optional[int] = ..., codec: _Optional[_Union[_frame_pb2.Codec, str]] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "choice")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    presence_penalty: float
    frequency_penalty: float
    logit_bias: _containers.ScalarMap[int, float]
    logprobs: bool
    top_logprobs: int
    choice: int
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., seed: _Optional[int] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., logprobs: _Optional[bool] = ..., top_logprobs: _Optional[int] = ..., choice: _Optional[int] = ...) -> None: ...

class SessionSpec(_message.Message):
    __slots__ = ("session", "epoch", "stage", "n_stages", "layers", "contract_digest", "prompt_tokens", "max_tokens", "edges", "sampling", "end_tokens", "committed", "idle_ms", "step_deadline_ms", "token_window", "gateway_grace_ms", "exact", "recipe")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    N_STAGES_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    END_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    STEP_DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_WINDOW_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    RECIPE_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    stage: int
    n_stages: int
    layers: LayerRange
    contract_digest: bytes
    prompt_tokens: int
    max_tokens: int
    edges: _containers.RepeatedCompositeFieldContainer[EdgeSpec]
    sampling: Sampling
    end_tokens: _containers.RepeatedScalarFieldContainer[int]
    committed: _containers.RepeatedScalarFieldContainer[int]
    idle_ms: int
    step_deadline_ms: int
    token_window: int
    gateway_grace_ms: int
    exact: bool
    recipe: str
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., stage: _Optional[int] = ..., n_stages: _Optional[int] = ..., layers: _Optional[_Union[LayerRange, _Mapping]] = ..., contract_digest: _Optional[bytes] = ..., prompt_tokens: _Optional[int] = ..., max_tokens: _Optional[int] = ..., edges: _Optional[_Iterable[_Union[EdgeSpec, _Mapping]]] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., end_tokens: _Optional[_Iterable[int]] = ..., committed: _Optional[_Iterable[int]] = ..., idle_ms: _Optional[int] = ..., step_deadline_ms: _Optional[int] = ..., token_window: _Optional[int] = ..., gateway_grace_ms: _Optional[int] = ..., exact: _Optional[bool] = ..., recipe: _Optional[str] = ...) -> None: ...

class TokenLogprob(_message.Message):
    __slots__ = ("token_id", "logprob")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    logprob: float
    def __init__(self, token_id: _Optional[int] = ..., logprob: _Optional[float] = ...) -> None: ...

class TokenEvent(_message.Message):
    __slots__ = ("index", "token_id", "position", "finish", "choice", "logprob", "top_logprobs", "residence")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    RESIDENCE_FIELD_NUMBER: _ClassVar[int]
    index: int
    token_id: int
    position: int
    finish: FinishReason
    choice: int
    logprob: float
    top_logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    residence: _containers.RepeatedCompositeFieldContainer[_frame_pb2.StageResidence]
    def __init__(self, index: _Optional[int] = ..., token_id: _Optional[int] = ..., position: _Optional[int] = ..., finish: _Optional[_Union[FinishReason, str]] = ..., choice: _Optional[int] = ..., logprob: _Optional[float] = ..., top_logprobs: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ..., residence: _Optional[_Iterable[_Union[_frame_pb2.StageResidence, _Mapping]]] = ...) -> None: ...

class PrefillProgress(_message.Message):
    __slots__ = ("done", "residence")
    DONE_FIELD_NUMBER: _ClassVar[int]
    RESIDENCE_FIELD_NUMBER: _ClassVar[int]
    done: int
    residence: _containers.RepeatedCompositeFieldContainer[_frame_pb2.StageResidence]
    def __init__(self, done: _Optional[int] = ..., residence: _Optional[_Iterable[_Union[_frame_pb2.StageResidence, _Mapping]]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class SessionGone(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class StageFailure(_message.Message):
    __slots__ = ("code", "message", "stage")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    stage: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., stage: _Optional[int] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Keepalive(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EdgeMessage(_message.Message):
    __slots__ = ("session", "epoch", "from_stage", "to_stage", "ack", "token", "prefill", "gone", "failure", "close", "keepalive")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_STAGE_FIELD_NUMBER: _ClassVar[int]
    TO_STAGE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    PREFILL_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    from_stage: int
    to_stage: int
    ack: Ack
    token: TokenEvent
    prefill: PrefillProgress
    gone: SessionGone
    failure: StageFailure
    close: Close
    keepalive: Keepalive
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., from_stage: _Optional[int] = ..., to_stage: _Optional[int] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., token: _Optional[_Union[TokenEvent, _Mapping]] = ..., prefill: _Optional[_Union[PrefillProgress, _Mapping]] = ..., gone: _Optional[_Union[SessionGone, _Mapping]] = ..., failure: _Optional[_Union[StageFailure, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ..., keepalive: _Optional[_Union[Keepalive, _Mapping]] = ...) -> None: ...

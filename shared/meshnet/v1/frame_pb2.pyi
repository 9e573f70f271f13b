from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_PREFILL: _ClassVar[Phase]
    PHASE_DECODE: _ClassVar[Phase]
    PHASE_VERIFY: _ClassVar[Phase]

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DTYPE_UNSPECIFIED: _ClassVar[DType]
    DTYPE_F32: _ClassVar[DType]
    DTYPE_F16: _ClassVar[DType]
    DTYPE_BF16: _ClassVar[DType]
    DTYPE_I32: _ClassVar[DType]

class Codec(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODEC_UNSPECIFIED: _ClassVar[Codec]
    CODEC_RAW: _ClassVar[Codec]
    CODEC_BF16: _ClassVar[Codec]
    CODEC_Q8_0: _ClassVar[Codec]
PHASE_UNSPECIFIED: Phase
PHASE_PREFILL: Phase
PHASE_DECODE: Phase
PHASE_VERIFY: Phase
DTYPE_UNSPECIFIED: DType
DTYPE_F32: DType
DTYPE_F16: DType
DTYPE_BF16: DType
DTYPE_I32: DType
CODEC_UNSPECIFIED: Codec
CODEC_RAW: Codec
CODEC_BF16: Codec
CODEC_Q8_0: Codec

class Tensor(_message.Message):
    __slots__ = ("name", "dtype", "shape", "codec", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    codec: Codec
    data: bytes
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., codec: _Optional[_Union[Codec, str]] = ..., data: _Optional[bytes] = ...) -> None: ...

class StageResidence(_message.Message):
    __slots__ = ("stage", "queue_us", "compute_us", "codec_us")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_US_FIELD_NUMBER: _ClassVar[int]
    CODEC_US_FIELD_NUMBER: _ClassVar[int]
    stage: int
    queue_us: int
    compute_us: int
    codec_us: int
    def __init__(self, stage: _Optional[int] = ..., queue_us: _Optional[int] = ..., compute_us: _Optional[int] = ..., codec_us: _Optional[int] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("index", "count", "offset_bytes", "total_bytes")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    index: int
    count: int
    offset_bytes: int
    total_bytes: int
    def __init__(self, index: _Optional[int] = ..., count: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("session", "epoch", "from_stage", "to_stage", "seq", "phase", "position", "rows", "rewind", "prompt_end", "token_ids", "tensors", "logits_rows", "budget_ms", "residence", "fragment")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_STAGE_FIELD_NUMBER: _ClassVar[int]
    TO_STAGE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    REWIND_FIELD_NUMBER: _ClassVar[int]
    PROMPT_END_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    LOGITS_ROWS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_MS_FIELD_NUMBER: _ClassVar[int]
    RESIDENCE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    from_stage: int
    to_stage: int
    seq: int
    phase: Phase
    position: int
    rows: int
    rewind: bool
    prompt_end: bool
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    tensors: _containers.RepeatedCompositeFieldContainer[Tensor]
    logits_rows: _containers.RepeatedScalarFieldContainer[int]
    budget_ms: int
    residence: _containers.RepeatedCompositeFieldContainer[StageResidence]
    fragment: Fragment
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., from_stage: _Optional[int] = ..., to_stage: _Optional[int] = ..., seq: _Optional[int] = ..., phase: _Optional[_Union[Phase, str]] = ..., position: _Optional[int] = ..., rows: _Optional[int] = ..., rewind: _Optional[bool] = ..., prompt_end: _Optional[bool] = ..., token_ids: _Optional[_Iterable[int]] = ..., tensors: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., logits_rows: _Optional[_Iterable[int]] = ..., budget_ms: _Optional[int] = ..., residence: _Optional[_Iterable[_Union[StageResidence, _Mapping]]] = ..., fragment: _Optional[_Union[Fragment, _Mapping]] = ...) -> None: ...

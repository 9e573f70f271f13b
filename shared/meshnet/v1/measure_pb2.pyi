from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CaptureLogitsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CapturedLogits(_message.Message):
    __slots__ = ("session", "epoch", "position", "logits")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LOGITS_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    position: int
    logits: bytes
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., position: _Optional[int] = ..., logits: _Optional[bytes] = ...) -> None: ...

class CaptureStepsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CapturedStep(_message.Message):
    __slots__ = ("session", "epoch", "position", "rows", "begin_us", "end_us", "received_us", "awake_us", "taken_us", "delivered_us", "sent_us", "marks")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_US_FIELD_NUMBER: _ClassVar[int]
    END_US_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_US_FIELD_NUMBER: _ClassVar[int]
    AWAKE_US_FIELD_NUMBER: _ClassVar[int]
    TAKEN_US_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_US_FIELD_NUMBER: _ClassVar[int]
    SENT_US_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    position: int
    rows: int
    begin_us: int
    end_us: int
    received_us: int
    awake_us: int
    taken_us: int
    delivered_us: int
    sent_us: int
    marks: _containers.RepeatedCompositeFieldContainer[StepMark]
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., position: _Optional[int] = ..., rows: _Optional[int] = ..., begin_us: _Optional[int] = ..., end_us: _Optional[int] = ..., received_us: _Optional[int] = ..., awake_us: _Optional[int] = ..., taken_us: _Optional[int] = ..., delivered_us: _Optional[int] = ..., sent_us: _Optional[int] = ..., marks: _Optional[_Iterable[_Union[StepMark, _Mapping]]] = ...) -> None: ...

class StepMark(_message.Message):
    __slots__ = ("part", "at_us")
    PART_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    part: str
    at_us: int
    def __init__(self, part: _Optional[str] = ..., at_us: _Optional[int] = ...) -> None: ...

from meshnet.v1 import frame_pb2 as _frame_pb2
from meshnet.v1 import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("wire_version_min", "wire_version_max", "lane", "connection")
    class Lane(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LANE_UNSPECIFIED: _ClassVar[Hello.Lane]
        LANE_DECODE: _ClassVar[Hello.Lane]
        LANE_BULK: _ClassVar[Hello.Lane]
    LANE_UNSPECIFIED: Hello.Lane
    LANE_DECODE: Hello.Lane
    LANE_BULK: Hello.Lane
    WIRE_VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    WIRE_VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    wire_version_min: int
    wire_version_max: int
    lane: Hello.Lane
    connection: bytes
    def __init__(self, wire_version_min: _Optional[int] = ..., wire_version_max: _Optional[int] = ..., lane: _Optional[_Union[Hello.Lane, str]] = ..., connection: _Optional[bytes] = ...) -> None: ...

class LinkItem(_message.Message):
    __slots__ = ("frame", "edge")
    FRAME_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    frame: _frame_pb2.Frame
    edge: _session_pb2.EdgeMessage
    def __init__(self, frame: _Optional[_Union[_frame_pb2.Frame, _Mapping]] = ..., edge: _Optional[_Union[_session_pb2.EdgeMessage, _Mapping]] = ...) -> None: ...

class LinkMessage(_message.Message):
    __slots__ = ("hello", "frame", "edge", "more")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    frame: _frame_pb2.Frame
    edge: _session_pb2.EdgeMessage
    more: _containers.RepeatedCompositeFieldContainer[LinkItem]
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., frame: _Optional[_Union[_frame_pb2.Frame, _Mapping]] = ..., edge: _Optional[_Union[_session_pb2.EdgeMessage, _Mapping]] = ..., more: _Optional[_Iterable[_Union[LinkItem, _Mapping]]] = ...) -> None: ...

from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PacketKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PACKET_KIND_UNSPECIFIED: _ClassVar[PacketKind]
    PACKET_KIND_FRAME: _ClassVar[PacketKind]
    PACKET_KIND_CONTROL: _ClassVar[PacketKind]
    PACKET_KIND_TOKEN: _ClassVar[PacketKind]
PACKET_KIND_UNSPECIFIED: PacketKind
PACKET_KIND_FRAME: PacketKind
PACKET_KIND_CONTROL: PacketKind
PACKET_KIND_TOKEN: PacketKind

class EdgePermit(_message.Message):
    __slots__ = ("from_stage", "to_stage", "window_bytes", "frames", "tokens")
    FROM_STAGE_FIELD_NUMBER: _ClassVar[int]
    TO_STAGE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    from_stage: int
    to_stage: int
    window_bytes: int
    frames: bool
    tokens: bool
    def __init__(self, from_stage: _Optional[int] = ..., to_stage: _Optional[int] = ..., window_bytes: _Optional[int] = ..., frames: _Optional[bool] = ..., tokens: _Optional[bool] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("ticket_id", "relay_id", "session", "epoch", "stage", "member_key", "edges", "bytes_max", "bytes_per_s", "bind_before_unix_s")
    TICKET_ID_FIELD_NUMBER: _ClassVar[int]
    RELAY_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_KEY_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    BIND_BEFORE_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    ticket_id: bytes
    relay_id: str
    session: bytes
    epoch: int
    stage: int
    member_key: bytes
    edges: _containers.RepeatedCompositeFieldContainer[EdgePermit]
    bytes_max: int
    bytes_per_s: int
    bind_before_unix_s: int
    def __init__(self, ticket_id: _Optional[bytes] = ..., relay_id: _Optional[str] = ..., session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., stage: _Optional[int] = ..., member_key: _Optional[bytes] = ..., edges: _Optional[_Iterable[_Union[EdgePermit, _Mapping]]] = ..., bytes_max: _Optional[int] = ..., bytes_per_s: _Optional[int] = ..., bind_before_unix_s: _Optional[int] = ...) -> None: ...

class SignedTicket(_message.Message):
    __slots__ = ("ticket", "signature")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    ticket: bytes
    signature: bytes
    def __init__(self, ticket: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class RelayChallenge(_message.Message):
    __slots__ = ("relay_id", "nonce")
    RELAY_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    relay_id: str
    nonce: bytes
    def __init__(self, relay_id: _Optional[str] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class MemberProof(_message.Message):
    __slots__ = ("public_key", "signature")
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    public_key: bytes
    signature: bytes
    def __init__(self, public_key: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class RelayWelcome(_message.Message):
    __slots__ = ("message_max_bytes", "keepalive_ms")
    MESSAGE_MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_MS_FIELD_NUMBER: _ClassVar[int]
    message_max_bytes: int
    keepalive_ms: int
    def __init__(self, message_max_bytes: _Optional[int] = ..., keepalive_ms: _Optional[int] = ...) -> None: ...

class Bind(_message.Message):
    __slots__ = ("signed_ticket",)
    SIGNED_TICKET_FIELD_NUMBER: _ClassVar[int]
    signed_ticket: bytes
    def __init__(self, signed_ticket: _Optional[bytes] = ...) -> None: ...

class Bound(_message.Message):
    __slots__ = ("session", "epoch", "stage")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    stage: int
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., stage: _Optional[int] = ...) -> None: ...

class Unbind(_message.Message):
    __slots__ = ("session", "epoch", "stage")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    stage: int
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., stage: _Optional[int] = ...) -> None: ...

class RelayRefusal(_message.Message):
    __slots__ = ("session", "epoch", "stage", "code", "message", "fatal")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    stage: int
    code: str
    message: str
    fatal: bool
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., stage: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., fatal: _Optional[bool] = ...) -> None: ...

class MemberLost(_message.Message):
    __slots__ = ("session", "epoch", "stage")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    stage: int
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., stage: _Optional[int] = ...) -> None: ...

class Packet(_message.Message):
    __slots__ = ("session", "epoch", "from_stage", "to_stage", "kind", "payload")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_STAGE_FIELD_NUMBER: _ClassVar[int]
    TO_STAGE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    epoch: int
    from_stage: int
    to_stage: int
    kind: PacketKind
    payload: bytes
    def __init__(self, session: _Optional[bytes] = ..., epoch: _Optional[int] = ..., from_stage: _Optional[int] = ..., to_stage: _Optional[int] = ..., kind: _Optional[_Union[PacketKind, str]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class PacketBatch(_message.Message):
    __slots__ = ("packets",)
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    packets: _containers.RepeatedCompositeFieldContainer[Packet]
    def __init__(self, packets: _Optional[_Iterable[_Union[Packet, _Mapping]]] = ...) -> None: ...

class MemberMessage(_message.Message):
    __slots__ = ("proof", "bind", "unbind", "packets")
    PROOF_FIELD_NUMBER: _ClassVar[int]
    BIND_FIELD_NUMBER: _ClassVar[int]
    UNBIND_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    proof: MemberProof
    bind: Bind
    unbind: Unbind
    packets: PacketBatch
    def __init__(self, proof: _Optional[_Union[MemberProof, _Mapping]] = ..., bind: _Optional[_Union[Bind, _Mapping]] = ..., unbind: _Optional[_Union[Unbind, _Mapping]] = ..., packets: _Optional[_Union[PacketBatch, _Mapping]] = ...) -> None: ...

class RelayMessage(_message.Message):
    __slots__ = ("challenge", "welcome", "bound", "refusal", "lost", "packets")
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    challenge: RelayChallenge
    welcome: RelayWelcome
    bound: Bound
    refusal: RelayRefusal
    lost: MemberLost
    packets: PacketBatch
    def __init__(self, challenge: _Optional[_Union[RelayChallenge, _Mapping]] = ..., welcome: _Optional[_Union[RelayWelcome, _Mapping]] = ..., bound: _Optional[_Union[Bound, _Mapping]] = ..., refusal: _Optional[_Union[RelayRefusal, _Mapping]] = ..., lost: _Optional[_Union[MemberLost, _Mapping]] = ..., packets: _Optional[_Union[PacketBatch, _Mapping]] = ...) -> None: ...

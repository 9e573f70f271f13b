"""Frames and edge messages (tokens, acknowledgements, failures ...) as frozen types, and their conversion from bytes.

Invariants: no other code converts them. The size is checked before parsing, and every value before it is used. If a
peer's bytes are wrong, only `MessageError` is raised. Import from this package, not from its modules.
"""

from meshnet.frame.codec import parse_frame, read_frame, serialise_frame, write_frame
from meshnet.frame.edge_codec import (
    parse_edge_message,
    read_edge_message,
    serialise_edge_message,
    write_edge_message,
)
from meshnet.frame.edge_messages import (
    Ack,
    Close,
    EdgeBody,
    EdgeMessage,
    FinishReason,
    Keepalive,
    PrefillProgress,
    SessionGone,
    StageFailure,
    TokenEvent,
    TokenLogprob,
)
from meshnet.frame.fragments import FrameAssembler, fragment_frame
from meshnet.frame.frames import (
    Codec,
    DType,
    Fragment,
    Frame,
    Phase,
    StageResidence,
    Tensor,
)
from meshnet.frame.refusal import MessageError

__all__ = [
    "Ack",
    "Close",
    "Codec",
    "DType",
    "EdgeBody",
    "EdgeMessage",
    "FinishReason",
    "Fragment",
    "Frame",
    "FrameAssembler",
    "Keepalive",
    "MessageError",
    "Phase",
    "PrefillProgress",
    "SessionGone",
    "StageFailure",
    "StageResidence",
    "Tensor",
    "TokenEvent",
    "TokenLogprob",
    "fragment_frame",
    "parse_edge_message",
    "parse_frame",
    "read_edge_message",
    "read_frame",
    "serialise_edge_message",
    "serialise_frame",
    "write_edge_message",
    "write_frame",
]

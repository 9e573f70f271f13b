"""Converts bytes to `EdgeMessage` objects and back.

Invariants: the size is checked before parsing, the address (session, epoch, edge) before all other fields, and every
number before it is used. For any bytes, nothing but `MessageError` is raised.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from meshnet.constants import MAX_MESSAGE_BYTES, MAX_STAGES
from meshnet.failure_codes import FailureCode
from meshnet.frame.codec import read_address, read_residence, write_residence
from meshnet.frame.edge_messages import (
    CODE_PATTERN,
    MAX_TEXT_BYTES,
    MAX_TOP_LOGPROBS,
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
from meshnet.frame.frames import MAX_POSITION, MAX_TOKEN_ID
from meshnet.frame.refusal import MessageError, require
from meshnet.v1 import session_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.ids import Address

MALFORMED = FailureCode.MALFORMED


def parse_edge_message(data: bytes, *, limit_bytes: int = MAX_MESSAGE_BYTES) -> EdgeMessage:
    """Read and check one edge message from untrusted bytes.

    Raises:
        MessageError: the bytes are refused. If the error has an `address`, only that session fails; otherwise the
            connection is closed.
    """
    require(len(data) <= limit_bytes, FailureCode.MESSAGE_TOO_LARGE, f"{len(data)} bytes exceed {limit_bytes}", None)
    try:
        message = session_pb2.EdgeMessage.FromString(data)
    except DecodeError as error:
        raise MessageError(MALFORMED, "the bytes are not an edge message") from error
    return read_edge_message(message)


def serialise_edge_message(message: EdgeMessage) -> bytes:
    """Encode an edge message."""
    return write_edge_message(message).SerializeToString(deterministic=True)


def read_edge_message(message: session_pb2.EdgeMessage) -> EdgeMessage:
    """Check a protobuf message and return it as an `EdgeMessage`.

    Raises:
        MessageError: as from `parse_edge_message`.
    """
    address = read_address(message.session, message.epoch, message.from_stage, message.to_stage)
    which = message.WhichOneof("body")
    require(which is not None, MALFORMED, "an edge message has no body", address)
    return EdgeMessage.on(address, _READERS[str(which)](message, address))


def write_edge_message(message: EdgeMessage) -> session_pb2.EdgeMessage:
    """Return an edge message as its protobuf message. A `reason` or `message` is cut to MAX_TEXT_BYTES."""
    written = session_pb2.EdgeMessage(
        session=message.session, epoch=message.epoch, from_stage=message.from_stage, to_stage=message.to_stage
    )
    _write_body(written, message.body)
    return written


def _write_body(written: session_pb2.EdgeMessage, body: EdgeBody) -> None:
    match body:
        case Ack(seq):
            written.ack.CopyFrom(session_pb2.Ack(seq=seq))
        case TokenEvent():
            written.token.CopyFrom(_write_token(body))
        case PrefillProgress(done, residence):
            entries = [write_residence(entry) for entry in residence]
            written.prefill.CopyFrom(session_pb2.PrefillProgress(done=done, residence=entries))
        case SessionGone(reason):
            written.gone.CopyFrom(session_pb2.SessionGone(reason=_cut(reason)))
        case StageFailure(code, text, stage):
            written.failure.CopyFrom(session_pb2.StageFailure(code=code, message=_cut(text), stage=stage))
        case Close(reason):
            written.close.CopyFrom(session_pb2.Close(reason=_cut(reason)))
        case Keepalive():
            written.keepalive.CopyFrom(session_pb2.Keepalive())


def _write_token(event: TokenEvent) -> session_pb2.TokenEvent:
    written = session_pb2.TokenEvent(
        index=event.index,
        token_id=event.token_id,
        position=event.position,
        finish=session_pb2.FinishReason.Name(event.finish or 0),
        choice=event.choice,
        top_logprobs=[
            session_pb2.TokenLogprob(token_id=entry.token_id, logprob=entry.logprob) for entry in event.top_logprobs
        ],
        residence=[write_residence(entry) for entry in event.residence],
    )
    if event.logprob is not None:
        written.logprob = event.logprob
    return written


def _read_token(message: session_pb2.EdgeMessage, address: Address) -> TokenEvent:
    token = message.token
    require(token.token_id <= MAX_TOKEN_ID, FailureCode.BAD_TOKEN_ID, "a token id is out of range", address)
    require(token.position <= MAX_POSITION, MALFORMED, "a position is out of range", address)
    require(token.index <= MAX_POSITION, MALFORMED, "an index is out of range", address)
    require(token.finish in {0, *FinishReason}, MALFORMED, "the finish reason is unknown", address)
    require(len(token.top_logprobs) <= MAX_TOP_LOGPROBS, MALFORMED, "a token has too many alternatives", address)
    top = tuple(TokenLogprob(entry.token_id, entry.logprob) for entry in token.top_logprobs)
    logprob = token.logprob if token.HasField("logprob") else None
    values = [entry.logprob for entry in top] + ([] if logprob is None else [logprob])
    require(all(math.isfinite(value) for value in values), FailureCode.NOT_FINITE, "a logprob is not finite", address)
    in_range = all(entry.token_id <= MAX_TOKEN_ID for entry in top)
    require(in_range, FailureCode.BAD_TOKEN_ID, "an alternative's token id is out of range", address)
    return TokenEvent(
        index=token.index,
        token_id=token.token_id,
        position=token.position,
        finish=FinishReason(token.finish) if token.finish else None,
        choice=token.choice,
        logprob=logprob,
        top_logprobs=top,
        residence=read_residence(token.residence, address),
    )


def _read_prefill(message: session_pb2.EdgeMessage, address: Address) -> PrefillProgress:
    require(message.prefill.done <= MAX_POSITION, MALFORMED, "a position is out of range", address)
    return PrefillProgress(message.prefill.done, read_residence(message.prefill.residence, address))


def _read_failure(message: session_pb2.EdgeMessage, address: Address) -> StageFailure:
    failure = message.failure
    require(CODE_PATTERN.fullmatch(failure.code) is not None, MALFORMED, "a failure has no valid code", address)
    require(failure.stage < MAX_STAGES, MALFORMED, "a failure names no stage", address)
    return StageFailure(failure.code, _read_text(failure.message, address), failure.stage)


def _read_text(text: str, address: Address) -> str:
    require(len(text.encode()) <= MAX_TEXT_BYTES, MALFORMED, "a text is too long", address)
    return text


def _cut(text: str) -> str:
    return text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")


_READERS: Final[dict[str, Callable[[session_pb2.EdgeMessage, Address], EdgeBody]]] = {
    "ack": lambda message, _: Ack(message.ack.seq),
    "token": _read_token,
    "prefill": _read_prefill,
    "gone": lambda message, address: SessionGone(_read_text(message.gone.reason, address)),
    "failure": _read_failure,
    "close": lambda message, address: Close(_read_text(message.close.reason, address)),
    "keepalive": lambda _message, _address: Keepalive(),
}

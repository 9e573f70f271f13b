"""The relay's own messages, serialised.

Invariant: text for people names no payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.v1 import relay_pb2

if TYPE_CHECKING:
    from meshnet.ids import SessionKey


def challenge(relay_id: str, nonce: bytes) -> bytes:
    """First message to a member."""
    return relay_pb2.RelayMessage(
        challenge=relay_pb2.RelayChallenge(relay_id=relay_id, nonce=nonce)
    ).SerializeToString()


def welcome(message_max_bytes: int, keepalive_s: float) -> bytes:
    """Answer to a good proof."""
    body = relay_pb2.RelayWelcome(message_max_bytes=message_max_bytes, keepalive_ms=round(keepalive_s * 1000))
    return relay_pb2.RelayMessage(welcome=body).SerializeToString()


def bound(key: SessionKey, stage: int) -> bytes:
    """Answer to a good ticket."""
    body = relay_pb2.Bound(session=key.session, epoch=key.epoch, stage=stage)
    return relay_pb2.RelayMessage(bound=body).SerializeToString()


def refusal(key: SessionKey, stage: int, code: str, message: str) -> bytes:
    """A bind, a packet or a whole session was refused; the connection stays."""
    body = relay_pb2.RelayRefusal(session=key.session, epoch=key.epoch, stage=stage, code=code, message=message)
    return relay_pb2.RelayMessage(refusal=body).SerializeToString()


def dismissal(code: str, message: str) -> bytes:
    """Last message before the relay closes a connection."""
    body = relay_pb2.RelayRefusal(code=code, message=message, fatal=True)
    return relay_pb2.RelayMessage(refusal=body).SerializeToString()


def lost(key: SessionKey, stage: int) -> bytes:
    """Another member's connection is gone."""
    body = relay_pb2.MemberLost(session=key.session, epoch=key.epoch, stage=stage)
    return relay_pb2.RelayMessage(lost=body).SerializeToString()

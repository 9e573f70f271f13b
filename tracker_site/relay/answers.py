"""The relay's own messages, serialised.

Invariant: no message holds a payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.v1 import relay_pb2

if TYPE_CHECKING:
    from meshnet.ids import SessionKey


def challenge(relay_id: str, nonce: bytes) -> bytes:
    """Return the first message to a member."""
    return relay_pb2.RelayMessage(
        challenge=relay_pb2.RelayChallenge(relay_id=relay_id, nonce=nonce)
    ).SerializeToString()


def welcome(message_max_bytes: int, keepalive_s: float) -> bytes:
    """Return the answer to a valid proof."""
    body = relay_pb2.RelayWelcome(message_max_bytes=message_max_bytes, keepalive_ms=round(keepalive_s * 1000))
    return relay_pb2.RelayMessage(welcome=body).SerializeToString()


def bound(key: SessionKey, stage: int) -> bytes:
    """Return the answer to a valid ticket."""
    body = relay_pb2.Bound(session=key.session, epoch=key.epoch, stage=stage)
    return relay_pb2.RelayMessage(bound=body).SerializeToString()


def refusal(key: SessionKey, stage: int, code: str, message: str) -> bytes:
    """Return the refusal of a bind, a packet or a whole session; the connection stays open."""
    body = relay_pb2.RelayRefusal(session=key.session, epoch=key.epoch, stage=stage, code=code, message=message)
    return relay_pb2.RelayMessage(refusal=body).SerializeToString()


def dismissal(code: str, message: str) -> bytes:
    """Return the last message before the relay closes a connection."""
    body = relay_pb2.RelayRefusal(code=code, message=message, fatal=True)
    return relay_pb2.RelayMessage(refusal=body).SerializeToString()


def lost(key: SessionKey, stage: int) -> bytes:
    """Return the news that another member's connection is gone."""
    body = relay_pb2.MemberLost(session=key.session, epoch=key.epoch, stage=stage)
    return relay_pb2.RelayMessage(lost=body).SerializeToString()

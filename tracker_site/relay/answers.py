"""Builds and serialises the messages that the relay itself sends to members.

Invariant: no such message contains a payload of a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.v1 import relay_pb2

if TYPE_CHECKING:
    from meshnet.ids import SessionKey


def challenge(relay_id: str, nonce: bytes) -> bytes:
    """Return the first message to a member, which asks it to sign `nonce` and so to prove its key."""
    return relay_pb2.RelayMessage(
        challenge=relay_pb2.RelayChallenge(relay_id=relay_id, nonce=nonce)
    ).SerializeToString()


def welcome(message_max_bytes: int, keepalive_s: float) -> bytes:
    """Return the answer to a valid proof: the largest size of a message, and the time between two pings."""
    body = relay_pb2.RelayWelcome(message_max_bytes=message_max_bytes, keepalive_ms=round(keepalive_s * 1000))
    return relay_pb2.RelayMessage(welcome=body).SerializeToString()


def bound(key: SessionKey, stage: int) -> bytes:
    """Return the message that confirms to a member that its ticket was accepted for `stage` of this session."""
    body = relay_pb2.Bound(session=key.session, epoch=key.epoch, stage=stage)
    return relay_pb2.RelayMessage(bound=body).SerializeToString()


def refusal(key: SessionKey, stage: int, code: str, message: str) -> bytes:
    """Return the message that refuses a ticket or a packet, or ends a session; the connection stays open."""
    body = relay_pb2.RelayRefusal(session=key.session, epoch=key.epoch, stage=stage, code=code, message=message)
    return relay_pb2.RelayMessage(refusal=body).SerializeToString()


def dismissal(code: str, message: str) -> bytes:
    """Return the last message before the relay closes a connection, with the reason."""
    body = relay_pb2.RelayRefusal(code=code, message=message, fatal=True)
    return relay_pb2.RelayMessage(refusal=body).SerializeToString()


def lost(key: SessionKey, stage: int) -> bytes:
    """Return the message that tells the members of a session that the connection of `stage` is gone."""
    body = relay_pb2.MemberLost(session=key.session, epoch=key.epoch, stage=stage)
    return relay_pb2.RelayMessage(lost=body).SerializeToString()

"""The relay's rules for connections: challenge, proof, messages and dismissal.

Invariants: pure; the caller, `server.py`, passes times, nonces and member ids. If a member sends undecodable bytes, a
message out of turn or a packet on a forbidden edge, it is dismissed. If it exceeds a limit of its ticket, that session
ends (`sessions.py`). No message of a member raises an exception. Payloads are not read. Source: docs/wire.md, Relay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from meshnet.errors import ProtocolError
from meshnet.failure_codes import TITLES, FailureCode
from meshnet.keys import SignatureContext, relay_proof_message, verify
from meshnet.member_events import RelayCode
from meshnet.packets import read_packet, read_session_key
from meshnet.tickets import TicketError, claimed_place, verify_ticket
from meshnet.v1 import relay_pb2
from tracker_site.relay import answers
from tracker_site.relay.member import Attention, Member
from tracker_site.relay.sessions import BindError, RelayCounts, Sessions

if TYPE_CHECKING:
    from tracker_site.relay.limits import RelayLimits


class Now(NamedTuple):
    """The present time by two clocks: a monotonic one for rates and deadlines, Unix time for the expiry of tickets."""

    monotonic_s: float
    unix_s: float


class RelayFlow:
    """All members and sessions of one relay. Not thread-safe; owned by one event loop."""

    def __init__(self, relay_id: str, site_public_key: bytes, limits: RelayLimits) -> None:
        self._relay_id = relay_id
        self._site_public_key = site_public_key
        self._limits = limits
        self._members: dict[int, Member] = {}
        self._unproven: dict[int, Member] = {}
        self._attention = Attention()
        self.counts = RelayCounts()
        self._sessions = Sessions(limits, self.counts)

    @property
    def members(self) -> int:
        """Number of open connections."""
        return len(self._members)

    @property
    def sessions(self) -> int:
        """Number of sessions with at least one binding."""
        return len(self._sessions)

    def woken(self) -> set[int]:
        """Return the ids of members that got messages to be written, or were dismissed, since the last call."""
        woken, self._attention.woken = self._attention.woken, set()
        return woken

    def take(self, member_id: int) -> bytes | None:
        """Remove and return the next message for a member; None if nothing waits."""
        member = self._members.get(member_id)
        return None if member is None else member.outbox.take(self._limits.message_max_bytes)

    def is_dismissed(self, member_id: int) -> bool:
        """Return True if the connection is to be closed as soon as `take` returns None."""
        member = self._members.get(member_id)
        return member is None or member.is_dismissed

    def next_deadline_s(self) -> float | None:
        """Return the monotonic time at which `tick` must be called; None if every member has proven its key."""
        return min((member.proof_due_s for member in self._unproven.values()), default=None)

    def connect(self, member_id: int, nonce: bytes, now: Now) -> None:
        """Add an accepted connection and queue its challenge, which contains `nonce`, 32 random bytes.

        If the relay is full, the connection is dismissed instead.
        """
        due_s = now.monotonic_s + self._limits.proof_timeout_s
        member = Member(member_id, nonce, due_s, self._limits.answers_max, self._attention)
        self._members[member_id] = member
        if len(self._members) > self._limits.members_max:
            self._dismiss(member, RelayCode.RELAY_FULL, "This relay has no room for another member.")
            return
        self._unproven[member_id] = member
        member.answer(answers.challenge(self._relay_id, nonce))

    def receive(self, member_id: int, data: bytes, now: Now) -> None:
        """Handle one message of a member. If the bytes are wrong, the member is dismissed; nothing is raised."""
        member = self._members.get(member_id)
        if member is None or member.is_dismissed:
            return
        try:
            self._receive(member, self._parse(data), now)
        except ProtocolError as error:
            self._dismiss(member, error.code, error.message)
        self._dismiss_overrun()

    def disconnect(self, member_id: int) -> None:
        """Remove a lost connection and tell the other members of its sessions. Idempotent."""
        member = self._members.pop(member_id, None)
        self._unproven.pop(member_id, None)
        if member is not None:
            self._sessions.leave_all(member)
            self._dismiss_overrun()

    def dismiss(self, member_id: int, code: RelayCode, message: str) -> None:
        """Queue a member's last message, with this reason, and end its bindings. Idempotent."""
        member = self._members.get(member_id)
        if member is not None:
            self._dismiss(member, code, message)
            self._dismiss_overrun()

    def tick(self, now: Now) -> None:
        """Dismiss the members that have not proven their key in time."""
        overdue = [member for member in self._unproven.values() if member.proof_due_s <= now.monotonic_s]
        for member in overdue:
            self._dismiss(member, RelayCode.PROOF_OVERDUE, "No proof of a key came in time.")

    def _parse(self, data: bytes) -> relay_pb2.MemberMessage:
        limit_bytes = self._limits.message_max_bytes
        if len(data) > limit_bytes:
            title = TITLES[FailureCode.MESSAGE_TOO_LARGE]
            raise ProtocolError(FailureCode.MESSAGE_TOO_LARGE, title, f"{len(data)} bytes; the limit is {limit_bytes}.")
        try:
            return relay_pb2.MemberMessage.FromString(data)
        except DecodeError as error:
            raise _malformed("The bytes are not a MemberMessage.") from error

    def _receive(self, member: Member, message: relay_pb2.MemberMessage, now: Now) -> None:
        body = message.WhichOneof("body")
        if (body == "proof") == bool(member.public_key):
            raise _malformed(f"A member's first message, and only that one, must be its proof; this is a {body}.")
        if body == "proof":
            self._prove(member, message.proof)
        elif body == "bind":
            self._bind(member, message.bind.signed_ticket, now)
        elif body == "unbind":
            unbind = message.unbind
            self._sessions.unbind(member, read_session_key(unbind.session, unbind.epoch), unbind.stage)
        elif body == "packets":
            # The whole batch is parsed before its first packet is forwarded.
            for packet in [read_packet(one) for one in message.packets.packets]:
                self._sessions.forward(member, packet, now.monotonic_s)
        else:
            raise _malformed("The message has no body.")

    def _prove(self, member: Member, proof: relay_pb2.MemberProof) -> None:
        message = relay_proof_message(self._relay_id, member.nonce)
        if not verify(proof.public_key, SignatureContext.RELAY, message, proof.signature):
            raise ProtocolError(RelayCode.BAD_PROOF, "Bad proof", "The signature is not of this key and challenge.")
        member.public_key = proof.public_key
        self._unproven.pop(member.member_id, None)
        member.answer(answers.welcome(self._limits.message_max_bytes, self._limits.keepalive_s))

    def _bind(self, member: Member, signed_ticket: bytes, now: Now) -> None:
        place = claimed_place(signed_ticket)
        if place is None:
            raise _malformed("The bytes are not a signed ticket.")
        try:
            ticket = verify_ticket(
                signed_ticket,
                site_public_key=self._site_public_key,
                relay_id=self._relay_id,
                member_key=member.public_key,
                now_unix_s=now.unix_s,
            )
            self._sessions.bind(member, ticket, now.monotonic_s, now.unix_s)
        except (TicketError, BindError) as error:
            self.counts.binds_refused += 1
            key, stage = place
            member.answer(answers.refusal(key, stage, error.code, error.message))

    def _dismiss(self, member: Member, code: str, message: str) -> None:
        if not member.is_dismissed:
            self.counts.members_dismissed += 1
            self._unproven.pop(member.member_id, None)
            member.dismiss(code, message)
            self._sessions.leave_all(member)

    def _dismiss_overrun(self) -> None:
        """Dismiss the members that have left too many answers unread.

        The news that one of them is gone may be one answer too many for another. Each member is dismissed once, so the
        loop ends.
        """
        while self._attention.overrun:
            member = self._attention.overrun.pop()
            self._dismiss(member, RelayCode.TOO_SLOW, "The member left too many of the relay's answers unread.")


def _malformed(message: str) -> ProtocolError:
    return ProtocolError(FailureCode.MALFORMED, TITLES[FailureCode.MALFORMED], message)

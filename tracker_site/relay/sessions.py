"""Sessions on a relay: how members bind with tickets, how packets are forwarded, and how a session ends.

Invariants: pure. A binding makes a member one stage of a session. There is at most one per (session, epoch, stage); a
second one needs the same member key and replaces the first. Packets go to one receiver, are not stored for absent
members, and are forwarded only if the sender's ticket permits them. If a member exceeds a limit or leaves its window
full, that session ends for all of its members; no other session is touched.
Source: docs/wire.md, Relay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from meshnet.errors import ProtocolError
from meshnet.failure_codes import TITLES, FailureCode
from meshnet.member_events import RelayCode
from meshnet.tickets import TicketCode, TicketError
from tracker_site.relay import answers
from tracker_site.relay.binding import Binding, granted_windows
from tracker_site.relay.spent import SpentTickets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshnet.ids import SessionKey
    from meshnet.packets import Packet
    from meshnet.tickets import Ticket
    from tracker_site.relay.limits import RelayLimits
    from tracker_site.relay.member import Member

# Session and stage of a binding.
Place: TypeAlias = "tuple[SessionKey, int]"


class BindError(ProtocolError):
    """The ticket is valid, but the member cannot bind with it now, or cannot send this packet."""


@dataclass(slots=True)
class RelayCounts:
    """Totals of a relay since it started."""

    packets_forwarded: int = 0
    bytes_forwarded: int = 0
    packets_refused: int = 0
    binds_refused: int = 0
    sessions_ended: int = 0
    members_dismissed: int = 0


class Sessions:
    """All sessions of one relay. Not thread-safe."""

    def __init__(self, limits: RelayLimits, counts: RelayCounts) -> None:
        self._limits = limits
        self._counts = counts
        self._by_key: dict[SessionKey, dict[int, Binding]] = {}
        self._by_member: dict[int, dict[Place, Binding]] = {}
        self._spent = SpentTickets()

    def __len__(self) -> int:
        return len(self._by_key)

    def bind(self, member: Member, ticket: Ticket, now_s: float, now_unix_s: float) -> None:
        """Bind a member to the session and stage that its ticket names.

        If the same key has already bound this stage, the earlier binding is replaced. `now_s` is monotonic,
        `now_unix_s` is Unix time.

        Raises:
            BindError: if a member with another key is bound as this stage, or this member has too many bindings or too
                large windows.
            TicketError: if the ticket is spent.
        """
        if self._spent.contains(ticket.ticket_id, now_unix_s):
            raise TicketError(TicketCode.SPENT, "This ticket is spent; ask the site for a new one.")
        previous = self._by_key.get(ticket.key, {}).get(ticket.stage)
        if previous is not None and previous.ticket.member_key != ticket.member_key:
            title = TITLES[FailureCode.SESSION_EXISTS]
            raise BindError(FailureCode.SESSION_EXISTS, title, "Another member holds this place.")
        windows = granted_windows(ticket, self._limits.control_window_bytes)
        # If the member binds its own place again, the old windows do not count.
        freed_bytes = previous.granted_bytes if previous is not None and previous.member is member else 0
        granted_bytes = member.granted_bytes - freed_bytes + sum(windows.values())
        if granted_bytes > self._limits.granted_max_bytes or len(self._places_of(member)) >= self._limits.bindings_max:
            raise BindError(RelayCode.MEMBER_FULL, "Member full", "This member takes part in too many sessions.")
        if previous is not None:
            self._replace(previous, member)
        binding = Binding(ticket, member, windows, now_s)
        self._by_key.setdefault(ticket.key, {})[ticket.stage] = binding
        self._by_member.setdefault(member.member_id, {})[ticket.key, ticket.stage] = binding
        member.granted_bytes += binding.granted_bytes
        member.answer(answers.bound(ticket.key, ticket.stage))

    def unbind(self, member: Member, key: SessionKey, stage: int) -> None:
        """End a binding at its member's request: spend its ticket, and tell no other member. Idempotent."""
        binding = self._places_of(member).get((key, stage))
        if binding is not None:
            self._spend(binding)
            self._remove(binding)

    def leave_all(self, member: Member) -> None:
        """End all bindings of a lost connection. The other members are told, behind the lost member's last packets."""
        for binding in list(self._places_of(member).values()):
            self._remove(binding)
            key, stage = binding.ticket.key, binding.ticket.stage
            for other in self._by_key.get(key, {}).values():
                other.tell_lost(stage, answers.lost(key, stage))

    def forward(self, member: Member, packet: Packet, now_s: float) -> None:
        """Queue a packet for its receiver, or refuse it.

        If the sender exceeds a limit of its ticket, or the receiver's window is full, the session ends.

        Raises:
            BindError: if the sender's ticket does not permit the packet; the caller must dismiss the sender.
        """
        sender = self._places_of(member).get((packet.key, packet.from_stage))
        if sender is None:
            self._refuse(member, packet, packet.from_stage, FailureCode.UNKNOWN_SESSION)
            return
        if not sender.permits_packet(packet):
            title = TITLES[FailureCode.EDGE_NOT_PERMITTED]
            raise BindError(FailureCode.EDGE_NOT_PERMITTED, title, "The ticket does not permit this packet.")
        broken = sender.charge(len(packet.payload), now_s)
        if broken is not None:
            self._end(packet.key, packet.from_stage, broken)
            return
        receiver = self._by_key[packet.key].get(packet.to_stage)
        lane = None if receiver is None else receiver.lanes.get(packet.from_stage)
        if receiver is None or lane is None:
            self._refuse(member, packet, packet.to_stage, FailureCode.STAGE_LOST)
        elif not lane.has_room(packet):
            self._end(packet.key, packet.to_stage, FailureCode.WINDOW_EXCEEDED)
        else:
            lane.push(packet)
            receiver.member.wake()
            self._counts.packets_forwarded += 1
            self._counts.bytes_forwarded += len(packet.payload)

    def _places_of(self, member: Member) -> Mapping[Place, Binding]:
        return self._by_member.get(member.member_id, {})

    def _refuse(self, member: Member, packet: Packet, stage: int, code: FailureCode) -> None:
        """Drop a packet. Its sender is told, unless an equal refusal still waits to be written to it."""
        self._counts.packets_refused += 1
        message = answers.refusal(packet.key, stage, code, f"{TITLES[code]}: the packet was dropped.")
        member.answer(message, once=(packet.key, stage, code))

    def _end(self, key: SessionKey, stage: int, code: FailureCode | RelayCode) -> None:
        """End a session for all of its members; `stage` is at fault."""
        self._counts.sessions_ended += 1
        for binding in list(self._by_key[key].values()):
            self._spend(binding)
            self._remove(binding)
            binding.member.answer(answers.refusal(key, stage, code, "The relay ended this session."))

    def _replace(self, previous: Binding, member: Member) -> None:
        self._remove(previous)
        if previous.member is not member:
            key, stage = previous.ticket.key, previous.ticket.stage
            message = "The member has bound again over another connection."
            previous.member.answer(answers.refusal(key, stage, RelayCode.REBOUND, message))

    def _spend(self, binding: Binding) -> None:
        self._spent.add(binding.ticket.ticket_id, binding.ticket.bind_before_unix_s)

    def _remove(self, binding: Binding) -> None:
        key, stage = binding.ticket.key, binding.ticket.stage
        binding.close()
        member = binding.member
        member.granted_bytes -= binding.granted_bytes
        own = self._by_member[member.member_id]
        del own[key, stage]
        if not own:
            del self._by_member[member.member_id]
        places = self._by_key[key]
        del places[stage]
        if not places:
            del self._by_key[key]

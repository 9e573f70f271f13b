"""A member's part in one session: the packets and bytes that it may send, and the queues of packets for it.

Invariants: pure; a binding grants nothing beyond its ticket. Source: docs/wire.md, Relay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.ids import Edge
from meshnet.member_events import RelayCode
from meshnet.packets import PacketKind
from tracker_site.relay.outbox import Lane

if TYPE_CHECKING:
    from meshnet.packets import Packet
    from meshnet.tickets import Ticket
    from tracker_site.relay.member import Member


def granted_windows(ticket: Ticket, control_window_bytes: int) -> dict[int, int]:
    """Return how many bytes from each other stage may wait in the relay for the ticket's member.

    The keys are the sending stages. Each number includes `control_window_bytes` for control packets.
    """
    windows: dict[int, int] = {}
    for permit in ticket.permits:
        edge = permit.edge
        is_inbound = edge.to_stage == ticket.stage
        sender = edge.from_stage if is_inbound else edge.to_stage
        windows.setdefault(sender, control_window_bytes)
        windows[sender] += permit.window_bytes if is_inbound else 0
    return windows


class Binding:
    """A ticket that one member's connection uses. `windows` comes from `granted_windows`; `now_s` is monotonic."""

    def __init__(self, ticket: Ticket, member: Member, windows: dict[int, int], now_s: float) -> None:
        self.ticket: Final = ticket
        self.member: Final = member
        self.lanes: Final = {sender: Lane(member.outbox, window_bytes) for sender, window_bytes in windows.items()}
        self.granted_bytes: Final = sum(windows.values())
        self._permits = {permit.edge: permit for permit in ticket.permits}
        self._sent_bytes = 0
        self._allowance_bytes = float(ticket.bytes_per_s)
        self._filled_at_s = now_s

    def permits_packet(self, packet: Packet) -> bool:
        """Return True if the ticket lets the member send a packet of this kind to this receiver."""
        edge = Edge(packet.from_stage, packet.to_stage)
        permit = self._permits.get(edge)
        match packet.kind:
            case PacketKind.FRAME:
                return permit is not None and permit.carries_frames
            case PacketKind.TOKEN:
                return permit is not None and permit.carries_tokens
            case PacketKind.CONTROL:
                return permit is not None or edge.reversed() in self._permits

    def charge(self, payload_bytes: int, now_s: float) -> RelayCode | None:
        """Count the bytes of a sent payload; return the code of the limit that is now exceeded, or None.

        A burst may have as many bytes as one second of the sustained rate. `now_s` is monotonic.
        """
        rate = self.ticket.bytes_per_s
        self._allowance_bytes = min(rate, self._allowance_bytes + (now_s - self._filled_at_s) * rate)
        self._filled_at_s = now_s
        self._sent_bytes += payload_bytes
        self._allowance_bytes -= payload_bytes
        if self._sent_bytes > self.ticket.bytes_max:
            return RelayCode.BYTES_EXCEEDED
        return RelayCode.RATE_EXCEEDED if self._allowance_bytes < 0 else None

    def tell_lost(self, stage: int, message: bytes) -> None:
        """Queue `message` for this member; it says that another stage, `stage`, is gone.

        If packets from that stage still wait for this member, the message goes behind them.
        """
        lane = self.lanes.get(stage)
        if lane is None:
            self.member.answer(message)
        else:
            lane.push_lost(message)
            self.member.wake()

    def close(self) -> None:
        """Drop the packets that wait for this member in this session. Idempotent."""
        for lane in self.lanes.values():
            lane.close()

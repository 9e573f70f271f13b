"""A relay and its members without a network: both sides' pure machines, and the bytes between them."""

from __future__ import annotations

from dataclasses import replace

from meshnet.constants import GATEWAY_STAGE
from meshnet.ids import Edge, SessionKey
from meshnet.keys import SigningKey
from meshnet.member import RelayMember
from meshnet.member_events import Binding, Bound, MemberEvent, PacketsReceived
from meshnet.packets import Packet, PacketKind
from meshnet.tickets import EdgePermit, Ticket, sign_ticket
from tracker_site.relay.flow import Now, RelayFlow
from tracker_site.relay.limits import RelayLimits

RELAY_ID = "relay-1"
SITE_KEY = SigningKey.from_bytes(b"s" * 32)
LIMITS = RelayLimits(
    message_max_bytes=8192,
    members_max=8,
    bindings_max=8,
    granted_max_bytes=64 * 1024,
    control_window_bytes=2048,
    answers_max=16,
)
WINDOW_BYTES = 4096


def a_key(number: int = 0) -> SessionKey:
    return SessionKey(number.to_bytes(16, "big"), 1)


class Swarm:
    """A relay flow with members by name. Time stands still until a test moves it."""

    def __init__(self) -> None:
        self.flow = RelayFlow(RELAY_ID, SITE_KEY.public_key, LIMITS)
        self.now = Now(monotonic_s=100.0, unix_s=1_000.0)
        self.ids: dict[str, int] = {}
        self.members: dict[str, RelayMember] = {}
        self._tickets = 0

    def key_of(self, name: str) -> SigningKey:
        """Names that differ in their connection only ("a", "a/2") share a key."""
        return SigningKey.from_bytes(name.split("/", maxsplit=1)[0].encode().ljust(32, b"-"))

    def connect(self, name: str) -> RelayMember:
        """Open a connection without reading anything yet."""
        member_id = len(self.ids)
        self.ids[name], self.members[name] = member_id, RelayMember(self.key_of(name))
        self.flow.connect(member_id, bytes([member_id]) * 32, self.now)
        return self.members[name]

    def join(self, *names: str) -> None:
        """Connect and prove."""
        for name in names:
            self.connect(name)
            self.read(name)
            self.write(name)
            self.read(name)
            self.events(name)

    def write(self, name: str) -> None:
        """Carry what a member wants to send to the relay."""
        for data in self.members[name].data_to_send():
            self.flow.receive(self.ids[name], data, self.now)

    def read(self, name: str) -> None:
        """Carry what waits for a member, and close a dismissed one as the driver would."""
        while (data := self.flow.take(self.ids[name])) is not None:
            assert len(data) <= LIMITS.message_max_bytes
            self.members[name].receive(data)
        if self.flow.is_dismissed(self.ids[name]):
            self.drop(name)

    def settle(self) -> None:
        """Everybody writes and reads until nothing is left."""
        for _ in range(3):
            for name in list(self.members):
                self.write(name)
            for name in list(self.members):
                self.read(name)

    def drop(self, name: str) -> None:
        """A connection breaks."""
        self.members[name].connection_lost()
        self.flow.disconnect(self.ids[name])

    def events(self, name: str) -> list[MemberEvent]:
        return self.members[name].events()

    def payloads(self, name: str) -> list[bytes]:
        """What a member has received, in order."""
        received = [event for event in self.events(name) if isinstance(event, PacketsReceived)]
        return [packet.payload for event in received for packet in event.packets]

    def ticket(self, name: str, stage: int, number: int = 0, **changes: object) -> Ticket:
        """A ticket of a session of a Gateway, a head (0) and a tail (1)."""
        self._tickets += 1
        frames = {"carries_frames": True}
        permits = (
            EdgePermit(Edge(GATEWAY_STAGE, 0), WINDOW_BYTES, **frames),
            EdgePermit(Edge(0, 1), WINDOW_BYTES, **frames),
            EdgePermit(Edge(1, 0), WINDOW_BYTES, **frames),
            EdgePermit(Edge(1, GATEWAY_STAGE), WINDOW_BYTES, carries_tokens=True),
        )
        ticket = Ticket(
            ticket_id=self._tickets.to_bytes(16, "big"),
            relay_id=RELAY_ID,
            key=a_key(number),
            stage=stage,
            member_key=self.key_of(name).public_key,
            permits=tuple(one for one in permits if stage in {one.edge.from_stage, one.edge.to_stage}),
            bytes_max=1 << 20,
            bytes_per_s=1 << 18,
            bind_before_unix_s=1_060,
        )
        return replace(ticket, **changes)  # type: ignore[arg-type]  # a test's builder

    def bind(self, name: str, ticket: Ticket, *, signer: SigningKey = SITE_KEY) -> list[MemberEvent]:
        """Ask for a place and give the answer."""
        self.members[name].bind(Binding(ticket.key, ticket.stage), sign_ticket(ticket, signer))
        self.write(name)
        self.read(name)
        return self.events(name)

    def bind_route(self, number: int = 0, *, gateway: str = "gateway", head: str = "head", tail: str = "tail") -> None:
        """All three members of one session."""
        for name, stage in ((gateway, GATEWAY_STAGE), (head, 0), (tail, 1)):
            ticket = self.ticket(name, stage, number)
            assert self.bind(name, ticket) == [Bound(Binding(ticket.key, stage))]

    def send(self, name: str, *packets: Packet) -> None:
        self.members[name].send(packets)
        self.write(name)


def a_packet(
    from_stage: int, to_stage: int, payload: bytes = b"rows", *, kind: PacketKind = PacketKind.FRAME, number: int = 0
) -> Packet:
    return Packet(a_key(number), from_stage, to_stage, kind, payload)


def a_token(payload: bytes = b"token", *, from_stage: int = 1, number: int = 0) -> Packet:
    return a_packet(from_stage, GATEWAY_STAGE, payload, kind=PacketKind.TOKEN, number=number)


def a_swarm() -> Swarm:
    """A relay with a gateway, a head and a tail connected, and no session yet."""
    swarm = Swarm()
    swarm.join("gateway", "head", "tail")
    return swarm

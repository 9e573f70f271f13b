"""Nodes in this process: the simulated worker's machine behind a real connection to a real relay.

Only the control connection is replaced: `FakeNodes` opens and closes stages by calling its nodes.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from meshnet.errors import MeshnetError, RouteError
from meshnet.frame import (
    Ack,
    Codec,
    Frame,
    MessageError,
    SessionGone,
    TokenEvent,
    serialise_edge_message,
    serialise_frame,
)
from meshnet.ids import SessionKey
from meshnet.keys import SigningKey
from meshnet.member import RelayMember
from meshnet.member_events import Binding, BindRefused, Bound, MemberState, PacketsReceived, Ready
from meshnet.packets import Packet, PacketKind
from meshnet.shard_facts import Carrier
from meshnet.v1 import control_pb2, frame_pb2, session_pb2, worker_pb2
from node_app.reference_worker.sessions.machine import Message
from tests.simulators.engine_task import run_engine
from tests.simulators.fake_engine import DEFAULT_WIDTH
from tests.simulators.faults import Faults
from tests.simulators.offers import make_offer
from tests.simulators.shard_load import plan_load
from tests.simulators.stage_machine import SimulatedMachine
from tests.simulators.worker_state import SimulatedState
from tracker_site.control_plane.control import StageNews
from tracker_site.routes.planning.offers import Offer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DEADLINE_S = 10.0
N_LAYERS = 6
ARTIFACT = b"a" * 32


@dataclass
class Shape:
    """What a node holds and how it misbehaves."""

    name: str
    layer_begin: int = 0
    layer_end: int = N_LAYERS
    faults: Faults = field(default_factory=Faults)
    max_sessions: int = 8
    context_length: int = 2048
    decode_ms_per_layer: float = 1.0
    width: int = DEFAULT_WIDTH
    upload_bytes_per_s: int = 0


class Node:
    """One node: a relay member, a worker machine, an engine task."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.signing_key = SigningKey.generate()
        self.state = SimulatedState(shape.faults)
        load = plan_load(
            worker_pb2.LoadRequest(
                engine=worker_pb2.ENGINE_KIND_FAKE,
                fake=worker_pb2.FakeModel(n_layers=N_LAYERS, width=shape.width),
                layers=session_pb2.LayerRange(layer_begin=shape.layer_begin, layer_end=shape.layer_end),
                artifact_digest=ARTIFACT,
                max_sessions=shape.max_sessions,
                context_length=shape.context_length,
            )
        )
        self.machine = self.state.machine = SimulatedMachine(load, shape.faults)
        self.member = RelayMember(self.signing_key)
        self.connection: ClientConnection | None = None
        self.opened: list[SessionKey] = []
        self.closed: list[SessionKey] = []
        self.is_stopped = False  # its worker neither takes nor gives anything while set
        self._changed = asyncio.Event()
        self._refusals: dict[Binding, str] = {}

    @property
    def sessions(self) -> int:
        return len(self.machine.sessions)

    @asynccontextmanager
    async def running(self, url: str) -> AsyncIterator[Node]:
        async with connect(url, compression=None, max_size=None, ping_interval=None, close_timeout=1) as connection:
            self.connection = connection
            tasks = [asyncio.create_task(one) for one in (self._read(), self._write(), run_engine(self.state))]
            try:
                await self._until(lambda: self.member.state is MemberState.READY)
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    def kill(self) -> None:
        """The machine is gone, without a goodbye."""
        assert self.connection is not None
        self.connection.transport.abort()

    def offer(self) -> Offer:
        contract, shape = self.machine.load.contract, self.shape
        is_tail = shape.layer_end == N_LAYERS
        return make_offer(
            node_id=shape.name,
            layer_begin=shape.layer_begin,
            layer_end=shape.layer_end,
            n_layers=N_LAYERS,
            contract_digest=contract.contract_digest,
            recipe=contract.recipe,
            exact_class=contract.exact_class.SerializeToString(deterministic=True),
            decode_ms_per_layer=shape.decode_ms_per_layer,
            prefill_ms_per_layer=0.01,
            tail_ms=0.1,
            kv_cells_free=self.machine.load.kv_cells - self.machine.kv_cells_reserved,
            sessions_free=shape.max_sessions - self.sessions,
            sessions=self.sessions,
            carrier=Carrier.RELAY,
            seam_bytes_per_row=0 if is_tail else self.machine.load.shard.width * 4,
            codecs=frozenset(Codec(codec) for codec in contract.codecs),
            upload_bytes_per_s=shape.upload_bytes_per_s,
            public_key=self.signing_key.public_key,
            node_name=f"{shape.name}'s name",
            owner_id=len(shape.name),
        )

    async def open(self, request: control_pb2.OpenStage) -> control_pb2.StageOpened:
        """Bind first, so that nothing is lost that comes right after the answer."""
        spec = request.spec
        binding = Binding(SessionKey(spec.session, spec.epoch), spec.stage)
        self.member.bind(binding, request.ticket)
        self.state.outgoing.set()
        await self._until(lambda: self.member.is_bound(binding) or binding in self._refusals)
        if binding in self._refusals:
            raise RouteError(self._refusals[binding], "Refused", "The relay refused this node.")
        try:
            self.machine.open(spec, time.monotonic())
        except MessageError as error:
            self.member.unbind(binding)
            self.state.outgoing.set()
            raise RouteError(error.code, error.title, error.message) from error
        self.opened.append(binding.key)
        self.state.stir()
        return control_pb2.StageOpened(contract=self.machine.load.contract)

    def close(self, key: SessionKey) -> None:
        self.closed.append(key)
        self.machine.close(key, time.monotonic())
        for binding in [one for one in self.member.bindings if one.key == key]:
            self.member.unbind(binding)
        self.state.stir()

    async def _until(self, condition: object) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # type: ignore[operator]
                self._changed.clear()
                await self._changed.wait()

    async def _read(self) -> None:
        assert self.connection is not None
        try:
            async for data in self.connection:
                self.member.receive(data if isinstance(data, bytes) else b"")
                self._handle_events()
        except ConnectionClosed:
            self.member.connection_lost()

    def _handle_events(self) -> None:
        for event in self.member.events():
            match event:
                case PacketsReceived(packets) if not self.is_stopped:
                    for packet in packets:
                        self._take(packet)
                case BindRefused(binding, code):
                    self._refusals[binding] = code
                case Ready() | Bound():
                    pass
        self._changed.set()
        self.state.stir()

    def _take(self, packet: Packet) -> None:
        if packet.kind is PacketKind.FRAME:
            self.machine.receive_frame(frame_pb2.Frame.FromString(packet.payload), time.monotonic())
        else:
            self.machine.receive_edge(session_pb2.EdgeMessage.FromString(packet.payload), time.monotonic())

    async def _write(self) -> None:
        assert self.connection is not None
        while True:
            await self.state.outgoing.wait()
            self.state.outgoing.clear()
            packets = [] if self.is_stopped else [_packet(message) for message in self.machine.take_outgoing()]
            known = [one for one in packets if self.member.is_bound(Binding(one.key, one.from_stage))]
            if known:
                self.member.send(known)
            try:
                for data in self.member.data_to_send():
                    await self.connection.send(data)
            except ConnectionClosed:
                return


def _packet(message: Message) -> Packet:
    if isinstance(message, Frame):
        payload = serialise_frame(message)
        return Packet(message.key, message.from_stage, message.to_stage, PacketKind.FRAME, payload)
    is_answer = isinstance(message.body, Ack | SessionGone)
    ends = (message.to_stage, message.from_stage) if is_answer else (message.from_stage, message.to_stage)
    kind = PacketKind.TOKEN if isinstance(message.body, TokenEvent) else PacketKind.CONTROL
    return Packet(message.key, *ends, kind, serialise_edge_message(message))


class FakeNodes:
    """`NodeAccess` over nodes in this process."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = {node.shape.name: node for node in nodes}
        self.news: asyncio.Queue[StageNews] = asyncio.Queue()
        self.silent: set[str] = set()  # never answer an opening
        self.paused: set[str] = set()  # offer nothing
        self.restarted: set[str] = set()  # have another worker than was read of last
        self.reading_s = 0.0

    async def offers(self, artifact_digest: bytes) -> list[Offer]:
        assert artifact_digest == ARTIFACT
        self.restarted = set()
        await asyncio.sleep(self.reading_s)
        return [node.offer() for name, node in self.nodes.items() if name not in self.paused]

    async def open_stage(
        self, node_id: str, request: control_pb2.OpenStage, reply_channel: str, timeout_s: float
    ) -> control_pb2.StageOpened:
        assert reply_channel == "route-test"
        key = SessionKey(request.spec.session, request.spec.epoch)
        is_answered = False
        try:
            if node_id in self.silent:
                await asyncio.Event().wait()
            if node_id in self.restarted:
                raise RouteError("worker_changed", "Refused", "The worker is another one.")
            answer = await self.nodes[node_id].open(request)
            is_answered = True
        except MeshnetError:
            is_answered = True
            raise
        finally:
            if not is_answered:
                self.nodes[node_id].close(key)
        return answer

    async def close_stage(self, node_id: str, key: SessionKey, reason: str) -> None:
        assert reason
        self.nodes[node_id].close(key)

    async def new_reply_channel(self) -> str:
        return "route-test"

    async def receive_news(self, reply_channel: str) -> StageNews:
        return await self.news.get()

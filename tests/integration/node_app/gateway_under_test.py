"""The Gateway's part in a session, over a real relay: it opens, prompts, acknowledges, and compares tokens."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.ids import Edge, SessionKey
from meshnet.member_events import Binding, Bound, PacketsReceived
from meshnet.packets import Packet, PacketKind
from meshnet.sampling import SamplingTerms, sample
from meshnet.tickets import EdgePermit, Ticket, sign_ticket
from meshnet.v1 import control_pb2, frame_pb2, session_pb2
from tests.integration.tracker_site.relay.process import RELAY_ID, SITE_KEY
from tests.simulators.fake_engine import FakeSequence, FakeShard, logits_of
from tracker_site.control_plane.control_events import Opened

if TYPE_CHECKING:
    from tests.integration.node_app.site_under_test import Site
    from tests.integration.tracker_site.relay.process import Member

WINDOW_BYTES = 1 << 20
PROMPT = tuple(b"Once upon a time")
END_TOKEN = 257
RELAY = session_pb2.EdgeSpec.CARRIER_RELAY
LOCAL = session_pb2.EdgeSpec.CARRIER_LOCAL


def expected_tokens(n_layers: int, width: int, prompt: tuple[int, ...], count: int) -> list[int]:
    """What an unsplit FakeEngine draws by arg max, without end tokens."""
    sequence = FakeSequence(FakeShard(n_layers, width, 0, n_layers))
    row = sequence.step_tokens(prompt)[-1]
    terms = SamplingTerms(
        temperature=0.0,
        top_p=1.0,
        top_k=0,
        min_p=0.0,
        seed=0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        logit_bias={},
    )
    tokens: list[int] = []
    counts: Counter[int] = Counter()
    for index in range(count):
        token = sample(logits_of(row), terms, counts, len(prompt) + index)
        tokens.append(token)
        row = sequence.step_tokens((token,))[-1]
    return tokens


@dataclass
class Generation:
    """One session of one stage on one node."""

    site: Site
    member: Member
    node_id: str
    max_tokens: int
    key: SessionKey = field(default_factory=lambda: SessionKey(os.urandom(16), 1))
    tokens: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    is_finished: bool = False

    def request(self) -> control_pb2.OpenStage:
        report = self.site.report_of(self.node_id)
        assert report is not None
        ((identity, _),) = report.shards
        edges = [
            session_pb2.EdgeSpec(
                from_stage=begin, to_stage=end, carrier=carrier, window_frames=8, window_bytes=WINDOW_BYTES,
                codec=frame_pb2.CODEC_RAW,
            )
            for begin, end, carrier in (
                (GATEWAY_STAGE, 0, RELAY), (0, GATEWAY_STAGE, RELAY), (0, 0, LOCAL),
            )
        ]  # fmt: skip
        spec = session_pb2.SessionSpec(
            session=self.key.session,
            epoch=self.key.epoch,
            stage=0,
            n_stages=1,
            layers=session_pb2.LayerRange(layer_begin=identity.layer_begin, layer_end=identity.layer_end),
            contract_digest=identity.contract_digest,
            recipe=identity.recipe,
            prompt_tokens=len(PROMPT),
            max_tokens=self.max_tokens,
            edges=edges,
            sampling=session_pb2.Sampling(temperature=0.0, top_p=1.0),
            end_tokens=[],
            idle_ms=30_000,
            step_deadline_ms=10_000,
            token_window=32,
            gateway_grace_ms=2000,
        )
        node_key = next(key for key, node_id in self.site.nodes.items() if node_id == self.node_id)
        ticket = self._ticket(node_key, stage=0)
        return control_pb2.OpenStage(
            spec=spec,
            ticket=ticket,
            artifact_digest=identity.artifact_digest,
            link_fingerprint=report.reach.link_fingerprint,
        )

    def _ticket(self, member_key: bytes, stage: int) -> bytes:
        permits = (
            EdgePermit(Edge(GATEWAY_STAGE, 0), WINDOW_BYTES, carries_frames=True),
            EdgePermit(Edge(0, GATEWAY_STAGE), WINDOW_BYTES, carries_tokens=True),
        )
        ticket = Ticket(
            ticket_id=os.urandom(16),
            relay_id=RELAY_ID,
            key=self.key,
            stage=stage,
            member_key=member_key,
            permits=permits,
            bytes_max=1 << 30,
            bytes_per_s=1 << 30,
            bind_before_unix_s=int(time.time()) + 60,
        )
        return sign_ticket(ticket, SITE_KEY)

    async def open(self) -> Opened:
        """Bind at the relay and open the stage."""
        binding = Binding(self.key, GATEWAY_STAGE)
        self.member.machine.bind(binding, self._ticket(self.member.signing_key.public_key, GATEWAY_STAGE))
        await self.member.flush()
        await self.member.wait_for(Bound, lambda event: event.binding == binding)
        answer = await self.site.open_stage(self.node_id, self.request())
        assert isinstance(answer, Opened), answer
        return answer

    async def prompt(self) -> None:
        frame = frame_pb2.Frame(
            session=self.key.session,
            epoch=self.key.epoch,
            from_stage=GATEWAY_STAGE,
            to_stage=0,
            seq=0,
            phase=frame_pb2.PHASE_PREFILL,
            position=0,
            rows=len(PROMPT),
            prompt_end=True,
            token_ids=PROMPT,
            logits_rows=[len(PROMPT) - 1],
            budget_ms=10_000,
        )
        await self._send(PacketKind.FRAME, frame.SerializeToString())

    async def read_until(self, count: int) -> list[int]:
        """Read and acknowledge token events until there are `count`, or the session finishes or fails."""
        while len(self.tokens) < count and not self.is_finished and not self.failures:
            event = await self.member.wait_for(PacketsReceived, lambda one: one.packets[0].key == self.key)
            for packet in event.packets:
                await self._take(session_pb2.EdgeMessage.FromString(packet.payload))
        return self.tokens

    async def _take(self, message: session_pb2.EdgeMessage) -> None:
        if message.HasField("failure"):
            self.failures.append(message.failure.code)
        if message.HasField("token"):
            assert message.token.index == len(self.tokens)
            self.tokens.append(message.token.token_id)
            self.is_finished = message.token.finish != session_pb2.FINISH_REASON_UNSPECIFIED
            await self.acknowledge(message.token.index)

    async def acknowledge(self, index: int) -> None:
        ack = session_pb2.EdgeMessage(
            session=self.key.session, epoch=self.key.epoch, from_stage=0, to_stage=GATEWAY_STAGE,
            ack=session_pb2.Ack(seq=index),
        )  # fmt: skip
        await self._send(PacketKind.CONTROL, ack.SerializeToString())

    async def _send(self, kind: PacketKind, payload: bytes) -> None:
        await self.member.send(Packet(self.key, GATEWAY_STAGE, 0, kind, payload))

    async def run(self) -> list[int]:
        """The whole life of a session that goes well."""
        await self.open()
        await self.prompt()
        tokens = await self.read_until(self.max_tokens)
        await self.close()
        return tokens

    async def close(self) -> None:
        await self.site.close_stage(self.node_id, self.key)
        self.member.machine.unbind(Binding(self.key, GATEWAY_STAGE))
        await self.member.flush()

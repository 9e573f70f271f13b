"""Terms, messages and a worker for tests of local sessions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from meshnet.constants import GATEWAY_STAGE
from meshnet.errors import MeshnetError
from meshnet.frame import Ack, EdgeBody, EdgeMessage, FinishReason, TokenEvent
from meshnet.ids import Address, Edge, SessionKey
from meshnet.openai.specification import SamplingSpec
from meshnet.v1 import session_pb2
from node_app.sessions.local.terms import LocalRequest, LocalShard, LocalTerms
from node_app.worker.refusal import StageRefusedError

KEY = SessionKey(b"s" * 16, 1)
END_TOKEN, VOCABULARY_SIZE, N_LAYERS, CONTEXT_LENGTH = 257, 260, 2, 4096
CONTRACT = session_pb2.BoundaryContract(
    layers=session_pb2.LayerRange(layer_begin=0, layer_end=N_LAYERS),
    n_layers=N_LAYERS,
    architecture="fake",
    vocab_size=VOCABULARY_SIZE,
    context_length=CONTEXT_LENGTH,
    contract_digest=b"c" * 32,
    exact_class=session_pb2.ExactClass(ubatch=512),
)
# Slow enough that chunks of more rows would keep others waiting for too long.
SHARD = LocalShard(CONTRACT, decode_ms=3.0, tail_ms=1.0, prefill_ms_per_row=1.9)
PROMPT_EDGE, TOKEN_EDGE = Edge(GATEWAY_STAGE, 0), Edge(0, GATEWAY_STAGE)


def a_request(prompt_tokens: int = 300, max_tokens: int = 40) -> LocalRequest:
    return LocalRequest(
        prompt_tokens=tuple(number % 256 for number in range(prompt_tokens)),
        max_tokens=max_tokens,
        sampling=SamplingSpec(temperature=0.0, seed=7),
        end_tokens=(END_TOKEN,),
        vocabulary_size=VOCABULARY_SIZE,
    )


def terms_of(request: LocalRequest | None = None, key: SessionKey = KEY) -> LocalTerms:
    return LocalTerms(key, request or a_request(), SHARD)


def from_worker(body: EdgeBody, key: SessionKey = KEY, edge: Edge | None = None) -> EdgeMessage:
    """A message as an honest worker sends it."""
    usual = PROMPT_EDGE if isinstance(body, Ack) else TOKEN_EDGE
    return EdgeMessage.on(Address(key, edge or usual), body)


def a_token(
    index: int, *, prompt_tokens: int = 300, token_id: int = 65, finish: FinishReason | None = None
) -> TokenEvent:
    return TokenEvent(index=index, token_id=token_id, position=prompt_tokens + index, finish=finish)


@dataclass
class Worker:
    """Has `places`; `gate` holds opens up, `failure` is raised by them."""

    places: int = 4
    contract: session_pb2.BoundaryContract = field(default_factory=lambda: CONTRACT)
    opened: set[SessionKey] = field(default_factory=set)
    closed: list[SessionKey] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    failure: MeshnetError | None = None

    def __post_init__(self) -> None:
        self.gate.set()

    async def open_session(self, spec: session_pb2.SessionSpec, timeout_s: float) -> session_pb2.BoundaryContract:
        key = SessionKey(spec.session, spec.epoch)
        if len(self.opened) >= self.places:
            raise StageRefusedError("too_many_sessions", "no place")
        self.opened.add(key)
        self.asked.set()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return self.contract

    async def close_session(self, session: bytes, epoch: int, reason: str) -> bool:
        key = SessionKey(session, epoch)
        self.closed.append(key)
        self.opened.discard(key)
        return True

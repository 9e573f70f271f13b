"""The terms with which this machine's own sessions are opened on its worker.

Invariants: pure; the terms equal those that a site gives the only stage of a route.
Source: session.proto; docs/wire.md, Addresses and Credits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from meshnet.constants import DECODE_WINDOW_FRAMES, GATEWAY_STAGE, TOKEN_ACK_WINDOW
from meshnet.generation.chunking import (
    Chunking,
    Pipeline,
    SeamLink,
    StageTime,
    choose_chunking,
    measured_rows,
    split_step_ms,
)
from meshnet.generation.deadlines import GenerationDeadlines
from meshnet.generation.sampling_message import sampling_message
from meshnet.v1 import session_pb2

if TYPE_CHECKING:
    from meshnet.ids import SessionKey
    from meshnet.openai.specification import SamplingSpec

# The most that a session's packets may hold on their way to the worker: token ids, acks and keepalives.
QUEUE_BYTES: Final = 64 * 1024
# The only stage.
STAGE: Final = 0


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """A request for one generation.

    Attributes:
        max_tokens: the most tokens to generate.
        sampling: how tokens are drawn; its seed is set.
        end_tokens: ids that end the generation.
        vocabulary_size: number of tokens in the vocabulary that made the prompt's ids.
    """

    prompt_tokens: tuple[int, ...] = field(repr=False)
    max_tokens: int
    sampling: SamplingSpec
    end_tokens: tuple[int, ...]
    vocabulary_size: int


@dataclass(frozen=True, slots=True)
class LocalShard:
    """The whole model as the worker has loaded it, and its measured times.

    Attributes:
        decode_ms: time of a step of one row.
        tail_ms: the part of `decode_ms` that the output norm and the output head take.
        prefill_ms_per_row: time of a full prompt chunk, without the output head, divided by its rows.
    """

    contract: session_pb2.BoundaryContract
    decode_ms: float
    tail_ms: float
    prefill_ms_per_row: float

    @property
    def time(self) -> StageTime:
        """The time that a step over a prompt chunk takes, as a fixed part and a part for each row."""
        rows_max = self.contract.exact_class.ubatch
        rows = measured_rows(rows_max, self.contract.context_length)
        fixed_ms, row_ms = split_step_ms(self.decode_ms - self.tail_ms, self.prefill_ms_per_row * rows, rows)
        return StageTime(fixed_ms, row_ms, rows_max)


@dataclass(frozen=True, slots=True)
class LocalTerms:
    """The terms of one local session: its request, the shard that serves it and its deadlines."""

    key: SessionKey
    request: LocalRequest
    shard: LocalShard
    deadlines: GenerationDeadlines = field(default_factory=GenerationDeadlines)

    @property
    def chunking(self) -> Chunking:
        """The chunks in which the prompt is sent to the worker. The way over this machine's socket counts as 0 ms."""
        return choose_chunking(Pipeline(len(self.request.prompt_tokens), (self.shard.time,), (SeamLink(0),)))

    @property
    def step_s(self) -> float:
        """The longest that one step may take, in seconds."""
        chunk_ms = self.shard.prefill_ms_per_row * self.chunking.rows
        return self.deadlines.step_limit_s(max(chunk_ms, self.shard.decode_ms))

    def session_spec(self) -> session_pb2.SessionSpec:
        """Return the specification with which the worker is asked to open the session."""
        request, contract = self.request, self.shard.contract
        return session_pb2.SessionSpec(
            session=self.key.session,
            epoch=self.key.epoch,
            stage=STAGE,
            n_stages=1,
            layers=contract.layers,
            contract_digest=contract.contract_digest,
            recipe=contract.recipe,
            prompt_tokens=len(request.prompt_tokens),
            max_tokens=request.max_tokens,
            edges=_edges(self.chunking.windows[0].frames),
            sampling=sampling_message(request.sampling),
            end_tokens=request.end_tokens,
            idle_ms=_milliseconds(self.deadlines.idle_s),
            step_deadline_ms=_milliseconds(self.step_s - self.deadlines.telling_s),
            token_window=TOKEN_ACK_WINDOW,
            gateway_grace_ms=_milliseconds(self.deadlines.grace_s),
        )


def _edges(prompt_frames: int) -> list[session_pb2.EdgeSpec]:
    """Return the edges: prompt and tokens go over the bridge, as relayed edges do; the ring stays in the worker."""
    relay, local = session_pb2.EdgeSpec.CARRIER_RELAY, session_pb2.EdgeSpec.CARRIER_LOCAL
    return [
        _edge(GATEWAY_STAGE, STAGE, relay, prompt_frames),
        _edge(STAGE, GATEWAY_STAGE, relay, 0),
        _edge(STAGE, STAGE, local, DECODE_WINDOW_FRAMES),
    ]


def _edge(
    from_stage: int, to_stage: int, carrier: session_pb2.EdgeSpec.Carrier, window_frames: int
) -> session_pb2.EdgeSpec:
    return session_pb2.EdgeSpec(from_stage=from_stage, to_stage=to_stage, carrier=carrier, window_frames=window_frames)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)

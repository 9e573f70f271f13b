"""The terms of a session on one stage: a SessionSpec that was checked, with its defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE, MAX_STAGES, SESSION_ID_BYTES, TOKEN_ACK_WINDOW
from meshnet.failure_codes import FailureCode
from meshnet.frame import Codec, MessageError
from meshnet.ids import Address, Edge, SessionKey
from meshnet.sampling import SamplingTerms
from meshnet.session import Window
from meshnet.token_window import GenerationTerms
from meshnet.v1 import session_pb2

if TYPE_CHECKING:
    from node_app.reference_worker.sessions.shard import StageShard

DEFAULT_IDLE_MS = 60_000
DEFAULT_STEP_DEADLINE_MS = 30_000
DEFAULT_GATEWAY_GRACE_MS = 2_000


@dataclass(frozen=True, slots=True)
class StageTerms:
    """The terms on which one stage admitted a session.

    Attributes:
        committed: token ids that an earlier epoch of the session generated; they follow the prompt.
        windows: the most frames and bytes in flight on each edge.
        codecs: the codec of the rows on each edge.
        kv_cells: KV cells reserved for the session.
        idle_s: the session fails if nothing is heard for this long.
        step_deadline_s: the longest that a step, or the acknowledgement of a frame, may take.
        gateway_grace_s: the longest that the tail waits for the Gateway to acknowledge tokens.
    """

    key: SessionKey
    stage: int
    n_stages: int
    prompt_tokens: int
    committed: tuple[int, ...]
    windows: dict[Edge, Window]
    codecs: dict[Edge, Codec]
    sampling: SamplingTerms
    generation: GenerationTerms
    kv_cells: int
    idle_s: float
    step_deadline_s: float
    gateway_grace_s: float

    @property
    def is_head(self) -> bool:
        """Whether this is the first stage."""
        return self.stage == 0

    @property
    def is_tail(self) -> bool:
        """Whether this is the last stage."""
        return self.stage == self.n_stages - 1

    @property
    def upstream(self) -> Edge:
        """The edge on which prompt chunks come in."""
        return Edge(GATEWAY_STAGE if self.is_head else self.stage - 1, self.stage)

    @property
    def downstream(self) -> Edge:
        """The edge on which this stage sends its rows, or the tail its token events."""
        return Edge(self.stage, GATEWAY_STAGE if self.is_tail else self.stage + 1)

    @property
    def ring(self) -> Edge:
        """The edge from the tail back to the head."""
        return Edge(self.n_stages - 1, 0)

    def address(self, edge: Edge) -> Address:
        """Return the address (session and edge) of this session's messages on `edge`."""
        return Address(self.key, edge)


def parse_terms(spec: session_pb2.SessionSpec, load: StageShard) -> StageTerms:
    """Check a spec against the loaded shard, fill in its defaults and return it as terms.

    Raises:
        MessageError: the session is refused; the reply gets the error's code.
    """
    _check_identity(spec)
    _check_contract(spec, load)
    _check_tokens(spec, load)
    windows = {Edge(e.from_stage, e.to_stage): Window(e.window_frames, e.window_bytes) for e in spec.edges}
    prompt_tokens = spec.prompt_tokens
    _require(
        prompt_tokens + len(spec.committed) <= load.context_length,
        FailureCode.CONTEXT_FULL,
        "the prompt is longer than the context",
    )
    terms = StageTerms(
        key=SessionKey(spec.session, spec.epoch),
        stage=spec.stage,
        n_stages=spec.n_stages,
        prompt_tokens=prompt_tokens,
        committed=tuple(spec.committed),
        windows=windows,
        codecs={Edge(e.from_stage, e.to_stage): _codec(e, spec, load) for e in spec.edges},
        sampling=_sampling(spec.sampling),
        generation=GenerationTerms(
            prompt_tokens=prompt_tokens,
            max_tokens=spec.max_tokens,
            end_tokens=frozenset(spec.end_tokens),
            vocab_size=load.contract.vocab_size,
            context_length=load.context_length,
            committed=len(spec.committed),
            token_window=spec.token_window or TOKEN_ACK_WINDOW,
        ),
        kv_cells=min(prompt_tokens + spec.max_tokens, load.context_length),
        idle_s=(spec.idle_ms or DEFAULT_IDLE_MS) / 1000,
        step_deadline_s=(spec.step_deadline_ms or DEFAULT_STEP_DEADLINE_MS) / 1000,
        gateway_grace_s=(spec.gateway_grace_ms or DEFAULT_GATEWAY_GRACE_MS) / 1000,
    )
    _check_edges(spec, terms, load.width)
    return terms


def _check_identity(spec: session_pb2.SessionSpec) -> None:
    named = len(spec.session) == SESSION_ID_BYTES and spec.epoch >= 1
    _require(named, FailureCode.MALFORMED, "the session lacks its id or its epoch")
    placed = 1 <= spec.n_stages <= MAX_STAGES and spec.stage < spec.n_stages
    _require(placed, FailureCode.MALFORMED, "the stage's number is out of range")


def _check_contract(spec: session_pb2.SessionSpec, load: StageShard) -> None:
    mismatch = FailureCode.CONTRACT_MISMATCH
    _require(spec.contract_digest == load.contract.contract_digest, mismatch, "the route's contract digest differs")
    _require(bool(spec.recipe) or not spec.exact, mismatch, "an exact route must name its one recipe")
    _require(spec.recipe in {"", load.contract.recipe}, mismatch, "the route's recipe differs")
    _require(spec.layers == load.contract.layers, mismatch, "the worker has other layers loaded")
    is_head, is_tail = spec.stage == 0, spec.stage == spec.n_stages - 1
    at_place = is_head == load.owns_input and is_tail == load.owns_output
    _require(at_place, mismatch, "the shard holds other ends of the model than the stage needs")


def _check_tokens(spec: session_pb2.SessionSpec, load: StageShard) -> None:
    _require(
        spec.prompt_tokens >= 1 and spec.max_tokens >= 1, FailureCode.MALFORMED, "the prompt or the answer has no token"
    )
    _require(
        len(spec.committed) < spec.max_tokens,
        FailureCode.MALFORMED,
        "all tokens are committed; none is left to generate",
    )
    known = all(token < load.contract.vocab_size for token in [*spec.end_tokens, *spec.committed])
    _require(known, FailureCode.BAD_TOKEN_ID, "a token id is outside the vocabulary")


def _check_edges(spec: session_pb2.SessionSpec, terms: StageTerms, width: int) -> None:
    _require(len(terms.windows) == len(spec.edges), FailureCode.MALFORMED, "an edge is named twice")
    carriers = {session_pb2.EdgeSpec.CARRIER_RELAY, session_pb2.EdgeSpec.CARRIER_LOCAL}
    spoken = all(edge.carrier in carriers for edge in spec.edges)
    _require(
        spoken, FailureCode.MALFORMED, "this worker has no direct links; each edge must go by the relay or stay local"
    )
    needed = {terms.upstream, terms.downstream}
    if terms.n_stages > 1 and (terms.is_head or terms.is_tail):
        needed.add(terms.ring)
    _require(needed <= set(terms.windows), FailureCode.MALFORMED, "an edge that the stage needs is missing")
    for edge in needed - {Edge(terms.stage, GATEWAY_STAGE)}:
        window = terms.windows[edge]
        row_bytes = terms.codecs[edge].packed_bytes(width) if _is_seam(edge) else 0
        room = window.frames >= 1 and window.tensor_bytes >= row_bytes
        _require(room, FailureCode.MALFORMED, "an edge's window is too small for one row")


def _is_seam(edge: Edge) -> bool:
    return GATEWAY_STAGE not in {edge.from_stage, edge.to_stage} and edge.from_stage < edge.to_stage


def _codec(edge: session_pb2.EdgeSpec, spec: session_pb2.SessionSpec, load: StageShard) -> Codec:
    if edge.codec in {0, Codec.RAW}:
        return Codec.RAW
    _require(
        _is_seam(Edge(edge.from_stage, edge.to_stage)),
        FailureCode.MALFORMED,
        "an edge that carries no rows has a codec",
    )
    spoken = edge.codec in load.contract.codecs
    _require(spoken, FailureCode.CONTRACT_MISMATCH, "this worker does not have the edge's codec for rows of this width")
    _require(not spec.exact, FailureCode.CONTRACT_MISMATCH, "an exact route carries raw rows only")
    return Codec(edge.codec)


def _sampling(sampling: session_pb2.Sampling) -> SamplingTerms:
    return SamplingTerms(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        seed=sampling.seed,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_bias=dict(sampling.logit_bias),
        logprobs=sampling.logprobs,
        top_logprobs=sampling.top_logprobs,
        choice=sampling.choice,
    )


def _require(condition: bool, code: FailureCode, message: str) -> None:
    if not condition:
        raise MessageError(code, message)

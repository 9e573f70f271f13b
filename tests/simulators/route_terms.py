"""The terms of a session for every stage of a route of workers, as a site would draw them up."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from meshnet.constants import DECODE_WINDOW_FRAMES, GATEWAY_STAGE, TOKEN_ACK_WINDOW
from meshnet.frame import Codec
from meshnet.ids import Edge, SessionKey
from meshnet.sampling import SamplingTerms
from meshnet.v1 import frame_pb2, session_pb2
from tests.simulators.fake_engine import END_TOKEN_ID

WINDOW_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RouteTerms:
    """One generation's terms, the same for all of its stages."""

    key: SessionKey
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: SamplingTerms = field(default_factory=SamplingTerms)
    committed: tuple[int, ...] = ()
    chunk_rows: int = 128
    window_frames: int = 2
    token_window: int = TOKEN_ACK_WINDOW
    gateway_grace_ms: int = 2_000
    step_deadline_ms: int = 5_000
    idle_ms: int = 10_000
    end_tokens: tuple[int, ...] = (END_TOKEN_ID,)
    codec: Codec = Codec.RAW
    is_exact: bool = False


def edges_of(n_stages: int) -> list[Edge]:
    """Every edge of a route that carries frames or tokens."""
    seams = [Edge(stage, stage + 1) for stage in range(n_stages - 1)]
    return [Edge(GATEWAY_STAGE, 0), *seams, Edge(n_stages - 1, GATEWAY_STAGE), Edge(n_stages - 1, 0)]


def spec_for(terms: RouteTerms, stage: int, contracts: list[session_pb2.BoundaryContract]) -> session_pb2.SessionSpec:
    """The spec of one stage."""
    n_stages = len(contracts)
    recipes = {contract.recipe for contract in contracts}
    return session_pb2.SessionSpec(
        session=terms.key.session,
        epoch=terms.key.epoch,
        stage=stage,
        n_stages=n_stages,
        layers=contracts[stage].layers,
        contract_digest=contracts[stage].contract_digest,
        recipe=recipes.pop() if len(recipes) == 1 else "",
        prompt_tokens=len(terms.prompt),
        max_tokens=terms.max_tokens,
        edges=[_edge(edge, terms) for edge in edges_of(n_stages) if stage in {edge.from_stage, edge.to_stage}],
        sampling=session_pb2.Sampling(**asdict(terms.sampling)),
        end_tokens=terms.end_tokens,
        committed=terms.committed,
        idle_ms=terms.idle_ms,
        step_deadline_ms=terms.step_deadline_ms,
        token_window=terms.token_window,
        gateway_grace_ms=terms.gateway_grace_ms,
        exact=terms.is_exact,
    )


def _edge(edge: Edge, terms: RouteTerms) -> session_pb2.EdgeSpec:
    is_local = edge.from_stage == edge.to_stage
    is_ring = edge.to_stage == 0 and edge.from_stage != GATEWAY_STAGE
    is_seam = edge.from_stage < edge.to_stage != GATEWAY_STAGE
    return session_pb2.EdgeSpec(
        from_stage=edge.from_stage,
        to_stage=edge.to_stage,
        carrier=session_pb2.EdgeSpec.CARRIER_LOCAL if is_local else session_pb2.EdgeSpec.CARRIER_RELAY,
        window_frames=DECODE_WINDOW_FRAMES if is_ring else terms.window_frames,
        window_bytes=WINDOW_BYTES,
        codec=frame_pb2.Codec.Name(terms.codec if is_seam else Codec.RAW),
    )

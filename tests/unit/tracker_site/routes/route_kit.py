"""Offers, plans, contracts and messages for tests of routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import Ack, EdgeBody, EdgeMessage, FinishReason, PrefillProgress, StageFailure, TokenEvent
from meshnet.ids import Address, Edge, SessionKey
from meshnet.openai.specification import SamplingSpec
from meshnet.shard_facts import Carrier
from meshnet.v1 import frame_pb2, session_pb2
from tests.simulators.offers import make_offer
from tracker_site.routes.planning.no_route import NoRouteError, NoRouteReason
from tracker_site.routes.planning.offers import Offer
from tracker_site.routes.planning.planner import RoutePlan
from tracker_site.routes.planning.request import RouteFailedError, RouteRequest
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.deadlines import RouteDeadlines
from tracker_site.routes.session.machine import RouteMachine
from tracker_site.routes.session.transitions import RouteState

if TYPE_CHECKING:
    from meshnet.generation.chunking import Chunking
    from tracker_site.routes.session.machine_io import RouteAction

SESSION = b"s" * 16
END_TOKEN = 257
VOCABULARY_SIZE = 260
WIDTH = 16
LAYERS_PER_STAGE = 2
DEADLINES = RouteDeadlines()


def a_request(prompt_tokens: int = 300, max_tokens: int = 40, *, is_exact: bool = False) -> RouteRequest:
    return RouteRequest(
        artifact_digest=b"a" * 32,
        n_layers=6,
        prompt_tokens=tuple(number % 256 for number in range(prompt_tokens)),
        max_tokens=max_tokens,
        sampling=SamplingSpec(temperature=0.0, seed=7),
        end_tokens=(END_TOKEN,),
        vocabulary_size=VOCABULARY_SIZE,
        is_exact=is_exact,
    )


def an_offer(stage: int, n_stages: int, *, carrier: str = "relay", link_address: str = "", node: str = "") -> Offer:
    is_tail = stage == n_stages - 1
    return make_offer(
        node_id=node or f"node{stage}",
        layer_begin=stage * LAYERS_PER_STAGE,
        layer_end=(stage + 1) * LAYERS_PER_STAGE,
        n_layers=n_stages * LAYERS_PER_STAGE,
        contract_digest=b"c" * 32,
        exact_class=b"exact",
        decode_ms_per_layer=1.0,
        prefill_ms_per_layer=0.1,
        tail_ms=1.0,
        kv_cells_free=4096,
        sessions_free=4,
        carrier=Carrier(carrier),
        link_address=link_address,
        link_fingerprint=bytes([stage + 1]) * 32,
        seam_bytes_per_row=0 if is_tail else WIDTH * 4,
        public_key=bytes([stage + 1]) * 32,
        node_name=f"name{stage}",
        owner_id=stage + 100,
    )


def offers(*ends: tuple[str, bool]) -> tuple[Offer, ...]:
    """Stages by carrier policy and whether they can be dialled."""
    return tuple(
        an_offer(stage, len(ends), carrier=policy, link_address=f"h{stage}:1" if listens else "")
        for stage, (policy, listens) in enumerate(ends)
    )


def a_plan(n_stages: int = 2) -> RoutePlan:
    return RoutePlan(tuple(an_offer(stage, n_stages) for stage in range(n_stages)), 1.0)


def a_contract(stage: int, n_stages: int = 2) -> session_pb2.BoundaryContract:
    rows = session_pb2.TensorSpec(name="hidden", dtype=frame_pb2.DTYPE_F32, elements_per_row=WIDTH)
    return session_pb2.BoundaryContract(
        layers=session_pb2.LayerRange(layer_begin=stage * LAYERS_PER_STAGE, layer_end=(stage + 1) * LAYERS_PER_STAGE),
        n_layers=n_stages * LAYERS_PER_STAGE,
        architecture="fake",
        inputs=[] if stage == 0 else [rows],
        outputs=[] if stage == n_stages - 1 else [rows],
        vocab_size=VOCABULARY_SIZE,
        context_length=4096,
        contract_digest=b"c" * 32,
        exact_class=session_pb2.ExactClass(backend="fake"),
    )


def from_stage(stage: int, body: EdgeBody, *, epoch: int = 1, session: bytes = SESSION) -> io.Received:
    """A message as an honest stage sends it."""
    edge = Edge(GATEWAY_STAGE, stage) if isinstance(body, Ack) else Edge(stage, GATEWAY_STAGE)
    return io.Received(stage, EdgeMessage.on(Address(SessionKey(session, epoch), edge), body))


def a_token(
    index: int, *, prompt_tokens: int = 300, token_id: int = 65, finish: FinishReason | None = None
) -> TokenEvent:
    return TokenEvent(index=index, token_id=token_id, position=prompt_tokens + index, finish=finish)


class Driven:
    """A machine and a clock, driven as far as a test needs it."""

    def __init__(self, request: RouteRequest | None = None, n_stages: int = 2) -> None:
        self.now_s = 1_000.0
        self.n_stages = n_stages
        self.request = request or a_request()
        self.machine = RouteMachine(SESSION, self.request, DEADLINES, self.now_s)
        self.epoch = 1
        self.done: list[RouteAction] = []

    def give(self, *inputs: io.RouteInput) -> list[RouteAction]:
        """Hand over inputs; the actions they caused."""
        for given in inputs:
            self.machine.handle(given, self.now_s)
        return self.take()

    def take(self) -> list[RouteAction]:
        actions = self.machine.actions()
        self.done.extend(actions)
        return actions

    def wait(self, seconds: float) -> list[RouteAction]:
        """Let time pass, ticking whenever the machine asks for it."""
        end_s = self.now_s + seconds
        actions: list[RouteAction] = []
        while (deadline_s := self.machine.next_deadline_s()) is not None and deadline_s <= end_s:
            self.now_s = max(self.now_s, deadline_s)
            self.machine.tick(self.now_s)
            actions.extend(self.take())
        self.now_s = end_s
        return actions

    def plan(self) -> list[RouteAction]:
        return self.give(io.Planned(a_plan(self.n_stages)))

    def open(self) -> list[RouteAction]:
        """From planned to the first prompt chunk."""
        opened = [io.StageOpened(self.epoch, stage, a_contract(stage, self.n_stages)) for stage in range(self.n_stages)]
        return self.give(io.RelayBound(self.epoch), *opened)

    @property
    def chunking(self) -> Chunking:
        """Of the present attempt."""
        assert self.machine.terms is not None
        return self.machine.terms.chunking

    def feed(self) -> None:
        """The head takes the whole prompt, chunk by chunk."""
        chunks = -(-len(self.request.prompt_tokens) // self.chunking.rows)
        self.give(*(from_stage(0, Ack(seq), epoch=self.epoch) for seq in range(chunks)))

    def token(self, index: int, **changes: object) -> list[RouteAction]:
        event = a_token(index, prompt_tokens=len(self.request.prompt_tokens), **changes)  # type: ignore[arg-type]
        return self.give(from_stage(self.n_stages - 1, event, epoch=self.epoch))

    def state(self) -> RouteState:
        return self.machine.state

    @property
    def closes(self) -> list[io.CloseAttempt]:
        return [action for action in self.done if isinstance(action, io.CloseAttempt)]


def driven_to(state: RouteState) -> Driven:
    """A machine in any state, with its outputs taken."""
    driven = Driven()
    if state is RouteState.CANCELLED:
        driven.give(io.Cancelled("gone"))
    elif state is not RouteState.PLANNING:
        driven.plan()
        if state is RouteState.FAILED:
            driven.give(io.RelayFailed(1, "relay_unavailable", "no relay"))
        elif state is not RouteState.OPENING:
            driven.open()
            if state is not RouteState.PREFILL:
                driven.feed()
                driven.token(0)
            if state is RouteState.FINISHED:
                driven.token(1, token_id=END_TOKEN, finish=FinishReason.STOP)
    driven.take()
    driven.machine.events()
    assert driven.machine.state is state
    return driven


def failure_of(driven: Driven) -> tuple[str, int | None]:
    """The code of the route's end, and the stage at fault."""
    assert driven.state() is RouteState.FAILED
    assert isinstance(driven.machine.failure, RouteFailedError)
    return driven.machine.failure.code, driven.machine.failure.stage


def sent_messages(actions: list[RouteAction]) -> list[EdgeMessage]:
    return [action.message for action in actions if isinstance(action, io.SendMessage)]


def sent_chunks(actions: list[RouteAction]) -> list[io.SendFrame]:
    return [action for action in actions if isinstance(action, io.SendFrame)]


NO_ROUTE = NoRouteError(NoRouteReason.MISSING_LAYERS, "Nobody serves layer 3.")
FAILURE = StageFailure("engine_failed", "the engine failed", 1)
PROGRESS = PrefillProgress(128)
ONE = offers(("auto", False))
RELAYED = offers(("relay", False), ("auto", True), ("relay", False))

"""Specs and tickets of planned routes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import Codec
from meshnet.generation.chunking import CHUNK_ROWS
from meshnet.ids import Edge, SessionKey
from meshnet.keys import SigningKey
from meshnet.tickets import sign_ticket, verify_ticket
from meshnet.v1 import frame_pb2, session_pb2
from tests.simulators.offers import change_offer
from tests.unit.tracker_site.routes.route_kit import (
    DEADLINES,
    END_TOKEN,
    ONE,
    RELAYED,
    SESSION,
    a_request,
    an_offer,
    offers,
)
from tracker_site.routes.planning.offers import Offer
from tracker_site.routes.planning.pipeline import UNKNOWN_SEAM_BYTES_PER_ROW
from tracker_site.routes.planning.planner import RoutePlan
from tracker_site.routes.session.terms import (
    TICKET_LIFE_S,
    RouteTerms,
    TicketIssue,
    member_ticket,
    open_stage,
    route_terms,
)

KEY = SessionKey(SESSION, 3)


def terms_of(stages: tuple[Offer, ...], **changes: object) -> RouteTerms:
    return route_terms(KEY, a_request(**changes), RoutePlan(stages, 1.0), DEADLINES)  # type: ignore[arg-type]


def issue(stage: int, member_key: bytes = b"m" * 32) -> TicketIssue:
    return TicketIssue(b"t" * 16, "relay-1", stage, member_key, 1_000.5)


# --- specs ---


def test_a_slow_seam_is_packed_at_both_ends_and_nothing_else_is() -> None:
    spoken = frozenset({Codec.BF16})
    stages = tuple(change_offer(one, codecs=spoken, upload_bytes_per_s=100) for one in RELAYED)
    request = replace(a_request(), coarsest_codec=Codec.Q8_0)
    terms = route_terms(KEY, request, RoutePlan(stages, 1.0), DEADLINES)
    for stage in range(3):
        codecs = {(e.from_stage, e.to_stage): e.codec for e in open_stage(terms, stage, b"").spec.edges}
        packed = {edge for edge, codec in codecs.items() if codec == frame_pb2.CODEC_BF16}
        assert packed == {edge for edge in ((0, 1), (1, 2)) if stage in edge}
        assert {codec for edge, codec in codecs.items() if edge not in packed} == {frame_pb2.CODEC_UNSPECIFIED}


def test_an_exact_route_is_never_packed() -> None:
    stages = tuple(change_offer(one, codecs=frozenset(Codec), upload_bytes_per_s=100) for one in RELAYED)
    request = replace(a_request(is_exact=True), coarsest_codec=Codec.Q8_0)
    terms = route_terms(KEY, request, RoutePlan(stages, 1.0), DEADLINES)
    assert {one.codec for one in terms.edges} == {Codec.RAW}
    assert all(open_stage(terms, stage, b"").spec.exact for stage in range(3))


@pytest.mark.parametrize(
    ("recipes", "named"),
    [
        (("llama.cpp",) * 3, "llama.cpp"),
        (("torch f32",) * 3, "torch f32"),
        (("torch f32", "llama.cpp", "llama.cpp"), ""),
    ],
)
def test_stages_are_held_to_the_routes_recipe_where_it_has_one(recipes: tuple[str, ...], named: str) -> None:
    stages = tuple(change_offer(one, recipe=recipe) for one, recipe in zip(RELAYED, recipes, strict=True))
    terms = route_terms(KEY, replace(a_request(), allows_mixed_recipes=True), RoutePlan(stages, 1.0), DEADLINES)
    assert {open_stage(terms, stage, b"").spec.recipe for stage in range(3)} == {named}


def test_both_ends_of_an_edge_agree() -> None:
    terms = terms_of(offers(("auto", False), ("auto", True), ("auto", False), ("relay", False)))
    specs = [open_stage(terms, stage, b"").spec for stage in range(4)]
    seen: dict[tuple[int, int], list[session_pb2.EdgeSpec]] = {}
    for spec in specs:
        for edge in spec.edges:
            assert spec.stage in {edge.from_stage, edge.to_stage}
            seen.setdefault((edge.from_stage, edge.to_stage), []).append(edge)
    for (from_stage, to_stage), ends in seen.items():
        assert len(ends) == (1 if GATEWAY_STAGE in {from_stage, to_stage} else 2)
        assert len({(end.carrier, end.window_frames, end.window_bytes) for end in ends}) == 1
        if ends[0].carrier == session_pb2.EdgeSpec.CARRIER_DIRECT:
            assert sorted(end.dial for end in ends) == [False, True]
            assert all(bool(end.peer_address) == end.dial for end in ends)
            assert all(len(end.peer_fingerprint) == 32 for end in ends if end.dial)


def test_each_stage_is_asked_of_the_worker_that_its_neighbours_are_told_to_expect() -> None:
    requests = [open_stage(terms_of(offers(("auto", True), ("auto", True))), stage, b"") for stage in range(2)]
    assert len({request.link_fingerprint for request in requests}) == 2
    for request, other in (requests, requests[::-1]):
        told = {edge.peer_fingerprint for edge in other.spec.edges if edge.peer_fingerprint}
        assert told == {request.link_fingerprint}
    assert open_stage(terms_of(offers(("relay", False), ("relay", False))), 0, b"").link_fingerprint == b""


def test_the_tail_alone_gets_sampling_and_end_tokens() -> None:
    terms = terms_of(offers(("relay", False), ("relay", False)))
    head, tail = (open_stage(terms, stage, b"ticket") for stage in range(2))
    assert (head.spec.HasField("sampling"), list(head.spec.end_tokens)) == (False, [])
    assert (tail.spec.sampling.seed, list(tail.spec.end_tokens)) == (7, [END_TOKEN])
    assert (head.ticket, head.artifact_digest) == (b"ticket", b"a" * 32)


def test_a_spec_says_what_was_planned() -> None:
    spec = open_stage(terms_of(offers(("relay", False), ("relay", False))), 1, b"").spec
    assert (spec.session, spec.epoch, spec.stage, spec.n_stages) == (SESSION, 3, 1, 2)
    assert (spec.layers.layer_begin, spec.layers.layer_end) == (2, 4)
    assert (spec.prompt_tokens, spec.max_tokens, spec.token_window) == (300, 40, 32)
    assert (spec.idle_ms, spec.gateway_grace_ms, spec.step_deadline_ms) == (60_000, 2_000, 7_750)


def test_a_slow_stage_gets_the_time_it_needs_within_bounds() -> None:
    slow = change_offer(an_offer(0, 1), prefill_ms_per_layer=10.0)
    hopeless = change_offer(slow, prefill_ms_per_layer=1e6)
    exact = terms_of((slow,), is_exact=True)
    assert exact.step_s == pytest.approx(10 * 128 * 2 * 10.0 / 1000, rel=0.001)
    assert terms_of((hopeless,)).step_s == DEADLINES.step_max_s


def test_a_narrow_line_gets_the_time_it_needs() -> None:
    """A chunk of the widest seam over 1 Mbit/s: by the steps' times alone it would be given up."""
    stages = tuple(change_offer(offer, upload_bytes_per_s=125_000) for offer in offers(("auto", True), ("auto", True)))
    wide = (change_offer(stages[0], seam_bytes_per_row=UNKNOWN_SEAM_BYTES_PER_ROW), stages[1])
    narrow = terms_of(wide, is_exact=True)
    assert narrow.chunking.interval_ms == pytest.approx(1000 * (128 * UNKNOWN_SEAM_BYTES_PER_ROW + 512) / 125_000)
    assert terms_of(stages).step_s == DEADLINES.step_min_s
    assert narrow.step_s == DEADLINES.step_max_s
    assert terms_of(wide).chunking.rows < CHUNK_ROWS


def test_a_seed_is_drawn_before() -> None:
    terms = terms_of(ONE)
    request = replace(terms.request, sampling=replace(terms.request.sampling, seed=None))
    with pytest.raises(ValueError, match="seed"):
        open_stage(replace(terms, request=request), 0, b"")


# --- tickets ---


def test_a_ticket_permits_the_relayed_edges_of_its_member_alone() -> None:
    terms = terms_of(offers(("auto", False), ("auto", True), ("relay", False)))
    permits = {stage: {one.edge for one in member_ticket(terms, issue(stage)).permits} for stage in range(3)}
    gateway = {stage: {Edge(GATEWAY_STAGE, stage), Edge(stage, GATEWAY_STAGE)} for stage in range(3)}
    # 0 -> 1 is direct; 1 -> 2 and the ring 2 -> 0 are relayed.
    assert permits[0] == gateway[0] | {Edge(2, 0)}
    assert permits[1] == gateway[1] | {Edge(1, 2)}
    assert permits[2] == gateway[2] | {Edge(1, 2), Edge(2, 0)}


def test_the_gateway_s_ticket_reaches_every_stage() -> None:
    ticket = member_ticket(terms_of(RELAYED), issue(GATEWAY_STAGE))
    assert len(ticket.permits) == 6
    assert [one.edge for one in ticket.permits if one.carries_tokens] == [Edge(2, GATEWAY_STAGE)]
    assert [one.edge for one in ticket.permits if one.carries_frames] == [Edge(GATEWAY_STAGE, 0)]


def test_the_ring_within_a_worker_needs_no_permit() -> None:
    assert {one.edge for one in member_ticket(terms_of(ONE), issue(0)).permits} == {
        Edge(GATEWAY_STAGE, 0),
        Edge(0, GATEWAY_STAGE),
    }


@pytest.mark.parametrize("stage", [0, 1, 2, GATEWAY_STAGE])
def test_a_relay_accepts_these_tickets_in_time(stage: int) -> None:
    site, member = SigningKey.from_bytes(b"s" * 32), SigningKey.from_bytes(b"m" * 32)
    ticket = member_ticket(terms_of(RELAYED), issue(stage, member.public_key))
    assert ticket.bind_before_unix_s == 1_000 + TICKET_LIFE_S
    read = verify_ticket(
        sign_ticket(ticket, site),
        site_public_key=site.public_key,
        relay_id="relay-1",
        member_key=member.public_key,
        now_unix_s=1_001,
    )
    assert read == ticket

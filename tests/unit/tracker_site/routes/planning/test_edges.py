"""Edges of planned routes: who exchanges what with whom, how, and how much of it may be on its way."""

from __future__ import annotations

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import Codec, DType, Frame, Phase, StageResidence, Tensor, fragment_frame, serialise_frame
from meshnet.generation.chunking import CHUNK_ROWS, PREFILL_WINDOW_BYTES, WINDOW_FRAMES_MIN
from meshnet.ids import Edge, SessionKey
from meshnet.packets import Packet, PacketKind
from tests.simulators.offers import change_offer
from tests.unit.tracker_site.routes.route_kit import ONE, RELAYED, SESSION, WIDTH, an_offer, offers
from tracker_site.routes.planning.edges import RouteEdge, carrier_name, plan_edges
from tracker_site.routes.planning.offers import Hop, Offer
from tracker_site.routes.planning.pipeline import UNKNOWN_SEAM_BYTES_PER_ROW, plan_chunking

KEY = SessionKey(SESSION, 3)


def edges_of(stages: tuple[Offer, ...], codec: Codec = Codec.RAW, *, is_exact: bool = False) -> tuple[RouteEdge, ...]:
    codecs = [codec] * (len(stages) - 1)
    return plan_edges(stages, plan_chunking(stages, codecs, 300, is_exact=is_exact).windows, codecs)


def test_one_stage_talks_to_itself_and_the_gateway() -> None:
    edges = {one.edge: one for one in edges_of(ONE)}
    assert set(edges) == {Edge(GATEWAY_STAGE, 0), Edge(0, GATEWAY_STAGE), Edge(0, 0)}
    assert edges[Edge(0, 0)].hop is Hop.LOCAL
    assert edges[Edge(0, GATEWAY_STAGE)].carries_tokens


def test_every_stage_has_its_seams_and_a_way_to_the_gateway() -> None:
    edges = {one.edge for one in edges_of(RELAYED)}
    gateway = {Edge(GATEWAY_STAGE, stage) for stage in range(3)} | {Edge(stage, GATEWAY_STAGE) for stage in range(3)}
    assert edges == gateway | {Edge(0, 1), Edge(1, 2), Edge(2, 0)}


def test_only_the_tail_sends_tokens_and_only_the_head_gets_the_prompt() -> None:
    edges = edges_of(RELAYED)
    assert [one.edge for one in edges if one.carries_tokens] == [Edge(2, GATEWAY_STAGE)]
    prompts = [one.edge for one in edges if one.edge.from_stage == GATEWAY_STAGE and one.window.frames]
    assert prompts == [Edge(GATEWAY_STAGE, 0)]


@pytest.mark.parametrize(
    ("ends", "hop", "forward_dialler", "ring_dialler"),
    [
        ((("auto", True), ("auto", False)), Hop.DIRECT, 1, 1),
        ((("auto", False), ("auto", True)), Hop.DIRECT, 0, 0),
        ((("auto", True), ("auto", True)), Hop.DIRECT, 0, 0),
        ((("auto", False), ("auto", False)), Hop.RELAY, None, None),
        ((("relay", True), ("auto", True)), Hop.RELAY, None, None),
    ],
)
def test_both_directions_of_a_pair_have_one_carrier_and_one_dialler(
    ends: tuple[tuple[str, bool], ...], hop: Hop, forward_dialler: int | None, ring_dialler: int | None
) -> None:
    edges = {one.edge: one for one in edges_of(offers(*ends))}
    forward, ring = edges[Edge(0, 1)], edges[Edge(1, 0)]
    assert (forward.hop, forward.dialler) == (hop, forward_dialler)
    assert (ring.hop, ring.dialler) == (hop, ring_dialler)


def test_windows_follow_the_seam() -> None:
    edges = {one.edge: one for one in edges_of(offers(("relay", False), ("relay", False)), is_exact=True)}
    forward, ring = edges[Edge(0, 1)].window, edges[Edge(1, 0)].window
    assert forward.frames >= WINDOW_FRAMES_MIN
    assert forward.tensor_bytes == forward.frames * CHUNK_ROWS * WIDTH * 4
    assert (ring.frames, ring.tensor_bytes) == (1, 0)
    unknown = change_offer(an_offer(0, 2), seam_bytes_per_row=0)
    wide = {one.edge: one for one in edges_of((unknown, an_offer(1, 2)), is_exact=True)}[Edge(0, 1)].window
    assert wide.frames == PREFILL_WINDOW_BYTES // (CHUNK_ROWS * UNKNOWN_SEAM_BYTES_PER_ROW)
    assert wide.tensor_bytes == wide.frames * CHUNK_ROWS * UNKNOWN_SEAM_BYTES_PER_ROW
    relayed = offers(("relay", False), ("relay", False))
    packed = {one.edge: one for one in edges_of(relayed, Codec.BF16, is_exact=True)}[Edge(0, 1)].window
    assert packed.tensor_bytes == packed.frames * CHUNK_ROWS * WIDTH * 2


def test_neighbours_without_a_way_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot exchange rows"):
        edges_of(offers(("direct", False), ("relay", False)))


def test_carriers_have_names_for_people() -> None:
    mixed = edges_of(offers(("auto", False), ("auto", True), ("auto", False), ("relay", False)))
    assert [carrier_name(mixed, stage) for stage in range(4)] == ["relay", "direct", "direct", "relay"]
    assert carrier_name(edges_of(ONE), 0) == "local"


@pytest.mark.parametrize("elements", [16, 1000, 4 * 7168])
def test_relay_windows_hold_all_that_credits_allow(elements: int) -> None:
    """The widest frames, in parts, with the longest headers: what the relay counts stays within what it grants."""
    stages = (change_offer(an_offer(0, 2), seam_bytes_per_row=elements * 4), an_offer(1, 2))
    seam = {one.edge: one for one in edges_of(stages, is_exact=True)}[Edge(0, 1)]
    frame = Frame(
        session=SESSION,
        epoch=2**32 - 1,
        from_stage=0,
        to_stage=1,
        seq=2**63,
        phase=Phase.PREFILL,
        position=2**30,
        rows=CHUNK_ROWS,
        token_ids=(2**31 - 1,) * CHUNK_ROWS,
        tensors=(Tensor("hidden", DType.F32, (CHUNK_ROWS, elements), Codec.RAW, bytes(CHUNK_ROWS * elements * 4)),),
        residence=tuple(StageResidence(stage, 2**31, 2**31, 2**31) for stage in range(64)),
    )
    parts = [serialise_frame(part) for part in fragment_frame(frame)]
    held_bytes = sum(Packet(KEY, 0, 1, PacketKind.FRAME, part).held_bytes for part in parts)
    assert seam.window.frames * frame.data_bytes == seam.window.tensor_bytes
    assert seam.window.frames * held_bytes <= seam.relay_window_bytes

"""The planner against brute force, and the reasons it gives when nothing fits."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.shard_facts import Carrier
from tests.simulators.offers import change_offer, make_offer
from tracker_site.routes.planning.cost import route_ms
from tracker_site.routes.planning.need import EXPECTED_TOKENS_MAX, RouteNeed
from tracker_site.routes.planning.no_route import NoRouteError, NoRouteReason, missing_ranges
from tracker_site.routes.planning.offer_index import OfferIndex
from tracker_site.routes.planning.offers import Hop, Offer, hop_between
from tracker_site.routes.planning.planner import RoutePlan, plan_indexed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

N_LAYERS = 4


def an_offer(node_id: str, layer_begin: int, layer_end: int, **changes: object) -> Offer:
    values: dict[str, object] = {
        "node_id": node_id,
        "layer_begin": layer_begin,
        "layer_end": layer_end,
        "n_layers": N_LAYERS,
        "contract_digest": b"digest",
        "exact_class": b"exact",
        "decode_ms_per_layer": 1.0,
        "prefill_ms_per_layer": 0.1,
        "tail_ms": 2.0,
        "kv_cells_free": 4096,
        "sessions_free": 4,
        "link_address": "127.0.0.1:1",
        "latency_ms": 1.0,
    }
    return make_offer(**(values | changes))


NEED = RouteNeed(n_layers=N_LAYERS, prompt_tokens=100, max_tokens=50)


def plan_route(offers: Iterable[Offer], need: RouteNeed) -> RoutePlan:
    return plan_indexed(OfferIndex(offers, is_exact=need.is_exact, mixes_recipes=need.mixes_recipes), need)


def ranges(plan: RoutePlan) -> list[tuple[str, int, int]]:
    return [(offer.node_id, offer.shard.layer_begin, offer.shard.layer_end) for offer in plan.stages]


# --- choices a reader can check by hand ---


def test_one_node_that_holds_all_layers_is_a_route_by_itself() -> None:
    plan = plan_route([an_offer("a", 0, 4)], NEED)
    assert ranges(plan) == [("a", 0, 4)]
    assert plan.estimate_ms == pytest.approx(50 * (4 * 1.0 + 2.0) + 100 * 4 * 0.1)


def test_one_node_wins_over_an_equally_fast_chain() -> None:
    chain = [an_offer("b", 0, 2, latency_ms=0.0), an_offer("c", 2, 4, latency_ms=0.0)]
    assert ranges(plan_route([*chain, an_offer("a", 0, 4)], NEED)) == [("a", 0, 4)]


def test_a_faster_chain_wins_over_a_slow_whole_node() -> None:
    slow = an_offer("slow", 0, 4, decode_ms_per_layer=30.0)
    plan = plan_route([slow, an_offer("b", 0, 2), an_offer("c", 2, 4)], NEED)
    assert ranges(plan) == [("b", 0, 2), ("c", 2, 4)]


def test_the_output_head_counts_against_a_slow_tail() -> None:
    offers = [
        an_offer("head", 0, 2),
        an_offer("heavy", 2, 4, tail_ms=50.0, decode_ms_per_layer=0.1),
        an_offer("light", 2, 4, tail_ms=1.0),
    ]
    assert ranges(plan_route(offers, NEED))[1] == ("light", 2, 4)


def test_a_long_prompt_prefers_fast_prefill_and_a_long_answer_fast_decode() -> None:
    offers = [
        an_offer("prefill", 0, 4, prefill_ms_per_layer=0.01, decode_ms_per_layer=5.0),
        an_offer("decode", 0, 4, prefill_ms_per_layer=1.0, decode_ms_per_layer=1.0),
    ]
    assert ranges(plan_route(offers, replace(NEED, prompt_tokens=3000, max_tokens=1)))[0][0] == "prefill"
    assert ranges(plan_route(offers, replace(NEED, prompt_tokens=1, max_tokens=3000)))[0][0] == "decode"


def test_an_idle_node_is_preferred_to_its_busy_twin() -> None:
    offers = [an_offer("busy", 0, 4, sessions=3), an_offer("idle", 0, 4)]
    assert ranges(plan_route(offers, NEED)) == [("idle", 0, 4)]


def test_two_shards_of_one_node_save_the_hop_between_them() -> None:
    offers = [an_offer("a", 0, 2), an_offer("a", 2, 4, decode_ms_per_layer=1.2), an_offer("b", 2, 4)]
    assert ranges(plan_route(offers, NEED)) == [("a", 0, 2), ("a", 2, 4)]


def test_a_refusing_node_is_left_out_of_the_next_plan() -> None:
    offers = [an_offer("a", 0, 4), an_offer("b", 0, 4, decode_ms_per_layer=2.0)]
    plan = plan_route(offers, replace(NEED, excluded_node_ids=frozenset({"a"})))
    assert ranges(plan) == [("b", 0, 4)]


def test_exact_routes_keep_to_one_exact_class() -> None:
    offers = [
        an_offer("a", 0, 2),
        an_offer("b", 2, 4, exact_class=b"other"),
        an_offer("c", 2, 4, decode_ms_per_layer=3.0),
    ]
    assert ranges(plan_route(offers, NEED))[1][0] == "b"
    assert ranges(plan_route(offers, replace(NEED, is_exact=True)))[1][0] == "c"


def test_a_route_keeps_to_one_recipe_unless_they_may_be_mixed() -> None:
    offers = [
        an_offer("a", 0, 2, recipe="llama.cpp"),
        an_offer("b", 2, 4, recipe="torch f32"),
        an_offer("c", 2, 4, recipe="llama.cpp", decode_ms_per_layer=3.0),
    ]
    mixing = replace(NEED, mixes_recipes=True)
    assert ranges(plan_route(offers, NEED))[1][0] == "c"
    assert ranges(plan_route(offers, mixing))[1][0] == "b"
    # Equal exact classes alone are not enough: an exact route has one recipe whatever is allowed.
    assert ranges(plan_route(offers, replace(mixing, is_exact=True)))[1][0] == "c"


def test_the_estimate_looks_at_a_bounded_number_of_tokens() -> None:
    assert replace(NEED, max_tokens=100_000).expected_tokens == EXPECTED_TOKENS_MAX


@pytest.mark.parametrize(
    ("sender", "receiver", "hop"),
    [
        (("auto", True), ("auto", True), Hop.DIRECT),
        (("auto", True), ("auto", False), Hop.DIRECT),
        (("auto", False), ("auto", True), Hop.DIRECT),
        (("auto", False), ("auto", False), Hop.RELAY),
        (("relay", True), ("auto", True), Hop.RELAY),
        (("direct", False), ("auto", True), Hop.DIRECT),
        (("direct", False), ("auto", False), None),
        (("direct", True), ("relay", True), None),
    ],
)
def test_the_carrier_follows_both_ends(sender: tuple[str, bool], receiver: tuple[str, bool], hop: Hop | None) -> None:
    ends = [
        an_offer(name, 0, 2, carrier=Carrier(policy), link_address="h:1" if listens else "")
        for name, (policy, listens) in (("a", sender), ("b", receiver))
    ]
    assert hop_between(*ends) is hop
    assert hop_between(ends[0], ends[0]) is Hop.LOCAL


@pytest.mark.parametrize(("policy", "hop"), [("auto", Hop.RELAY), ("direct", None)])
def test_a_worker_without_links_is_never_dialled_and_never_dials(policy: str, hop: Hop | None) -> None:
    without = an_offer("a", 0, 2, carrier=Carrier(policy), link_address="", has_link=False)
    dialable = an_offer("b", 2, 4)
    assert hop_between(change_offer(without, has_link=True), dialable) is Hop.DIRECT  # the control
    assert hop_between(without, dialable) is hop_between(dialable, without) is hop


# --- why nothing fits ---


def refusal(offers: Sequence[Offer], need: RouteNeed = NEED) -> NoRouteError:
    with pytest.raises(NoRouteError) as caught:
        plan_route(offers, need)
    return caught.value


def test_missing_layers_are_named() -> None:
    error = refusal([an_offer("a", 0, 1), an_offer("b", 2, 3)])
    assert (error.code, error.reason) == ("no_route", NoRouteReason.MISSING_LAYERS)
    assert error.layers == ((1, 2), (3, 4))
    assert "1-1, 3-3" in error.message


def test_no_node_at_all_misses_every_layer() -> None:
    assert refusal([]).layers == ((0, 4),)


@pytest.mark.parametrize(
    "change", [{"sessions_free": 0}, {"kv_cells_free": NEED.kv_cells - 1}, {"data_connected": False}]
)
def test_full_or_unreachable_nodes_are_reported_as_such(change: dict[str, object]) -> None:
    error = refusal([an_offer("a", 0, 2, **change), an_offer("b", 2, 4)])
    assert (error.code, error.reason, error.layers) == ("no_route", NoRouteReason.BUSY_LAYERS, ((0, 2),))


def test_an_exact_fit_of_the_cells_is_admitted() -> None:
    assert plan_route([an_offer("a", 0, 4, kv_cells_free=NEED.kv_cells, sessions_free=1)], NEED).stages


def test_differing_contracts_are_reported_as_such() -> None:
    error = refusal([an_offer("a", 0, 2), an_offer("b", 2, 4, contract_digest=b"other")])
    assert (error.code, error.reason) == ("contract_mismatch", NoRouteReason.CONTRACTS_DIFFER)


def test_differing_exact_classes_only_matter_on_exact_routes() -> None:
    offers = [an_offer("a", 0, 2), an_offer("b", 2, 4, exact_class=b"other")]
    assert plan_route(offers, NEED).stages
    assert refusal(offers, replace(NEED, is_exact=True)).reason is NoRouteReason.CONTRACTS_DIFFER


def test_differing_recipes_are_named_where_they_are_not_mixed() -> None:
    offers = [an_offer("a", 0, 2, recipe="llama.cpp"), an_offer("b", 2, 4, recipe="torch f32")]
    mixing = replace(NEED, mixes_recipes=True)
    for need in (NEED, replace(mixing, is_exact=True)):
        error = refusal(offers, need)
        assert (error.code, error.reason) == ("contract_mismatch", NoRouteReason.CONTRACTS_DIFFER)
        assert "different recipes (llama.cpp, torch f32)" in error.message
    assert plan_route(offers, mixing).stages
    # The control: where they may be mixed, contracts still may not differ.
    other = [offers[0], change_offer(offers[1], contract_digest=b"other")]
    assert "recipes" not in refusal(other, mixing).message


def test_ranges_that_overlap_without_meeting_are_reported_as_such() -> None:
    error = refusal([an_offer("a", 0, 3), an_offer("b", 2, 4)])
    assert (error.code, error.reason) == ("no_route", NoRouteReason.RANGES_DO_NOT_MEET)


def test_direct_only_nodes_that_nobody_can_dial_are_reported_as_such() -> None:
    ends = {"carrier": Carrier.DIRECT, "link_address": ""}
    error = refusal([an_offer("a", 0, 2, **ends), an_offer("b", 2, 4, **ends)])
    assert (error.code, error.reason) == ("no_route", NoRouteReason.NO_CARRIER)


@pytest.mark.parametrize(("layer_begin", "layer_end"), [(2, 2), (3, 2), (-1, 4), (0, 5)])
def test_impossible_ranges_are_never_planned(layer_begin: int, layer_end: int) -> None:
    refusal([an_offer("a", layer_begin, layer_end)])


def test_a_cut_that_is_not_legal_is_never_planned() -> None:
    need = replace(NEED, legal_cuts=frozenset({2}))
    quick = [an_offer("a", 0, 1, decode_ms_per_layer=0.1), an_offer("b", 1, 4, decode_ms_per_layer=0.1)]
    slow = [an_offer("c", 0, 2, decode_ms_per_layer=9.0), an_offer("d", 2, 4, decode_ms_per_layer=9.0)]
    assert ranges(plan_route([*quick, *slow], NEED)) == [("a", 0, 1), ("b", 1, 4)]
    assert ranges(plan_route([*quick, *slow], need)) == [("c", 0, 2), ("d", 2, 4)]


def test_a_cut_within_one_node_is_a_cut() -> None:
    shards = [an_offer("a", 0, 1), an_offer("a", 1, 4)]
    assert plan_route(shards, NEED).stages
    assert refusal(shards, replace(NEED, legal_cuts=frozenset({2}))).reason is NoRouteReason.ILLEGAL_CUTS


def test_a_whole_model_is_cut_nowhere() -> None:
    assert ranges(plan_route([an_offer("a", 0, 4)], replace(NEED, legal_cuts=frozenset()))) == [("a", 0, 4)]


def test_illegal_cuts_are_refused_by_name() -> None:
    offers = [an_offer("a", 0, 1), an_offer("b", 1, 4), an_offer("c", 0, 2)]
    error = refusal(offers, replace(NEED, legal_cuts=frozenset({2})))
    assert (error.code, error.reason, error.layers) == ("no_route", NoRouteReason.ILLEGAL_CUTS, ((2, 4),))
    assert error.message == (
        "Layers 2-3 are only served in ranges that begin or end at layer 1, where this model cannot be cut."
    )


def test_missing_ranges_of_overlapping_offers() -> None:
    assert missing_ranges([an_offer("a", 1, 2), an_offer("b", 0, 2)], N_LAYERS) == [(2, 4)]


# --- against brute force ---


def every_chain(offers: Sequence[Offer], need: RouteNeed) -> Iterator[tuple[Offer, ...]]:
    """All chains over adjacent, admissible shards that agree; written to be obvious, not fast."""

    def extend(chain: tuple[Offer, ...]) -> Iterator[tuple[Offer, ...]]:
        reached = chain[-1].shard.layer_end if chain else 0
        if reached == need.n_layers:
            yield chain
        for offer in offers:
            if offer.shard.layer_begin == reached:
                yield from extend((*chain, offer))

    for chain in extend(()):
        shards = [one.shard for one in chain]
        fits = all(
            one.figures.sessions_free > 0
            and one.figures.kv_cells_free >= need.kv_cells
            and one.node_id not in need.excluded_node_ids
            for one in chain
        )
        agree = all(left.contract_digest == right.contract_digest for left, right in pairwise(shards))
        exact = all(left.exact_class == right.exact_class for left, right in pairwise(shards))
        is_mixed = any(left.recipe != right.recipe for left, right in pairwise(shards))
        may_mix = need.mixes_recipes and not need.is_exact
        legal = need.legal_cuts is None or all(right.layer_begin in need.legal_cuts for right in shards[1:])
        if fits and agree and legal and (exact or not need.is_exact) and (may_mix or not is_mixed):
            yield chain


NODES = st.fixed_dictionaries(
    {
        "carrier": st.sampled_from(list(Carrier)),
        "link_address": st.sampled_from(["", "h:1"]),
        "has_link": st.sampled_from([True, True, False]),
        "latency_ms": st.integers(0, 20).map(float),
    }
)


@st.composite
def swarms(draw: st.DrawFn) -> list[Offer]:
    nodes = draw(st.lists(NODES, min_size=1, max_size=5))
    offers = []
    for _ in range(draw(st.integers(0, 9))):
        number = draw(st.integers(0, len(nodes) - 1))
        layer_begin = draw(st.integers(0, N_LAYERS - 1))
        changes = {
            "decode_ms_per_layer": float(draw(st.integers(1, 8))),
            "prefill_ms_per_layer": draw(st.integers(1, 8)) / 16,
            "tail_ms": float(draw(st.integers(0, 8))),
            "contract_digest": draw(st.sampled_from([b"one", b"one", b"one", b"two"])),
            "exact_class": draw(st.sampled_from([b"x", b"x", b"y"])),
            "recipe": draw(st.sampled_from(["llama.cpp", "llama.cpp", "torch f32"])),
            "sessions_free": draw(st.sampled_from([0, 1, 1, 1])),
            "sessions": draw(st.integers(0, 3)),
            "kv_cells_free": draw(st.sampled_from([NEED.kv_cells - 1, 4096, 4096, 4096])),
        }
        layer_end = draw(st.integers(layer_begin + 1, N_LAYERS))
        offers.append(an_offer(f"node{number}", layer_begin, layer_end, **nodes[number], **changes))
    return offers


@given(
    offers=swarms(),
    prompt_tokens=st.sampled_from([0, 10, 2000]),
    is_exact=st.booleans(),
    mixes_recipes=st.booleans(),
    excluded=st.sampled_from([frozenset(), frozenset({"node0"})]),
    legal_cuts=st.none() | st.frozensets(st.integers(1, N_LAYERS - 1)),
)
def test_no_chain_beats_the_plan(
    offers: list[Offer],
    prompt_tokens: int,
    is_exact: bool,
    mixes_recipes: bool,
    excluded: frozenset[str],
    legal_cuts: frozenset[int] | None,
) -> None:
    need = RouteNeed(
        N_LAYERS,
        prompt_tokens,
        NEED.max_tokens,
        is_exact=is_exact,
        mixes_recipes=mixes_recipes,
        excluded_node_ids=excluded,
        legal_cuts=legal_cuts,
    )
    costs = [cost for chain in every_chain(offers, need) if (cost := route_ms(chain, need)) is not None]
    if not costs:
        refusal(offers, need)
        return
    plan = plan_route(offers, need)
    actual = route_ms(plan.stages, need)
    assert actual is not None
    assert plan.stages in set(every_chain(offers, need))
    assert math.isclose(actual, min(costs), rel_tol=1e-9)
    assert math.isclose(actual, plan.estimate_ms, rel_tol=1e-9)


@given(offers=swarms(), opened=st.dictionaries(st.sampled_from(["node0", "node1", "gone"]), st.integers(0, 4)))
def test_what_was_opened_since_counts_as_if_the_nodes_had_reported_it(
    offers: list[Offer], opened: dict[str, int]
) -> None:
    need = replace(NEED, opened=opened)
    reported = [offer.with_opened(opened.get(offer.node_id, 0)) for offer in offers]
    assert outcome(offers, need) == outcome(reported, NEED)


def outcome(offers: list[Offer], need: RouteNeed) -> RoutePlan | tuple[NoRouteReason, tuple[tuple[int, int], ...]]:
    """The plan, or why there is none."""
    try:
        return plan_route(offers, need)
    except NoRouteError as error:
        return error.reason, error.layers


@given(offers=swarms())
def test_a_refusal_always_says_why(offers: list[Offer]) -> None:
    unreachable = [change_offer(offer, data_connected=False) for offer in offers]
    error = refusal(unreachable)
    covered = not missing_ranges(offers, N_LAYERS)
    assert error.reason is (NoRouteReason.BUSY_LAYERS if covered else NoRouteReason.MISSING_LAYERS)
    assert error.layers

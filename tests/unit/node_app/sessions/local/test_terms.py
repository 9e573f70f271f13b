"""A worker cannot tell a local session from a site's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshnet.openai.specification import SamplingSpec
from tests.simulators.offers import change_offer
from tests.unit.node_app.sessions.local.local_kit import KEY, SHARD, a_request, terms_of
from tests.unit.tracker_site.routes import route_kit
from tracker_site.routes.planning.planner import RoutePlan
from tracker_site.routes.session.terms import open_stage, route_terms


@pytest.mark.parametrize("prompt_tokens", [1, 128, 300])
def test_the_terms_are_those_that_a_site_gives_the_only_stage(prompt_tokens: int) -> None:
    offer = change_offer(
        route_kit.an_offer(0, 1),
        layer_end=2,
        exact_class=SHARD.contract.exact_class.SerializeToString(),
        decode_ms_per_layer=1.0,
        tail_ms=1.0,
        prefill_ms_per_layer=0.95,
        latency_ms=0.0,
    )
    plan = RoutePlan((offer,), 1.0)
    sites = route_terms(KEY, route_kit.a_request(prompt_tokens), plan, route_kit.DEADLINES)
    assert terms_of(a_request(prompt_tokens)).session_spec() == open_stage(sites, 0, b"").spec


def test_a_slow_machine_gets_time_for_its_chunks() -> None:
    slow = replace(terms_of(), shard=replace(SHARD, prefill_ms_per_row=20.0))
    assert terms_of().step_s == 8.0
    assert slow.step_s == pytest.approx(10 * 20.0 * 128 / 1000)
    assert replace(slow, request=a_request(1)).step_s == 8.0


@pytest.mark.parametrize(("row_ms", "rows"), [(0.2, 512), (0.8, 256), (1.9, 128), (20.0, 128), (0.0, 128)])
def test_a_fast_machine_computes_more_rows_at_once(row_ms: float, rows: int) -> None:
    """No chunk of more than 128 rows keeps others waiting for longer than a quarter of a second; no time, no change."""
    fast = replace(SHARD, decode_ms=2.0 if row_ms else 0.0, tail_ms=0.0, prefill_ms_per_row=row_ms)
    assert replace(terms_of(a_request(1000)), shard=fast).chunking.rows == rows


def test_sampling_needs_a_seed() -> None:
    with pytest.raises(ValueError, match="seed"):
        terms_of(replace(a_request(), sampling=SamplingSpec())).session_spec()


def test_the_prompt_is_not_in_the_representation() -> None:
    assert "prompt_tokens" not in repr(a_request())

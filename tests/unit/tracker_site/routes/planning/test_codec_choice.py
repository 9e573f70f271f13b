"""When a seam's rows are packed, and by what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.frame import Codec
from tests.simulators.offers import change_offer
from tests.unit.tracker_site.routes.route_kit import a_request, an_offer
from tracker_site.routes.planning.codec_choice import (
    BY_FAITHFULNESS,
    DEFAULT_UPLOAD_BYTES_PER_S,
    SeamLoad,
    choose_codec,
    codecs_up_to,
    seam_codecs,
)
from tracker_site.routes.planning.offers import Offer

ALL = frozenset(Codec)
# 4096 elements: 16.4 ms raw, 8.2 as bf16, 4.4 as q8_0.
LOAD = SeamLoad(row_bytes=16_384, link_bytes_per_s=1_000_000, stage_ms=200.0)


@pytest.mark.parametrize(
    ("stage_ms", "codec"),
    [
        (200.0, Codec.RAW),
        (163.9, Codec.RAW),
        (163.8, Codec.BF16),
        (82.0, Codec.BF16),
        (81.9, Codec.Q8_0),
        (0.0, Codec.Q8_0),
    ],
)
def test_the_most_faithful_that_is_fast_enough(stage_ms: float, codec: Codec) -> None:
    assert choose_codec(replace(LOAD, stage_ms=stage_ms), ALL) is codec


def test_only_what_is_allowed() -> None:
    slow = replace(LOAD, stage_ms=1.0)
    assert choose_codec(slow, frozenset()) is Codec.RAW
    assert choose_codec(slow, {Codec.BF16}) is Codec.BF16
    assert choose_codec(replace(LOAD, stage_ms=100.0), {Codec.Q8_0}) is Codec.Q8_0


def test_rows_that_stay_on_the_machine_are_raw() -> None:
    assert choose_codec(replace(LOAD, link_bytes_per_s=None, stage_ms=0.001), ALL) is Codec.RAW


@given(
    row_bytes=st.integers(0, 1 << 20).map(lambda blocks: blocks * 128),
    link_bytes_per_s=st.one_of(st.none(), st.floats(1, 1e12)),
    stage_ms=st.floats(0, 1e6),
    allowed=st.frozensets(st.sampled_from(Codec)),
)
def test_a_faster_link_or_a_slower_stage_never_makes_rows_coarser(
    row_bytes: int, link_bytes_per_s: float | None, stage_ms: float, allowed: frozenset[Codec]
) -> None:
    load = SeamLoad(row_bytes, link_bytes_per_s, stage_ms)
    codec = choose_codec(load, allowed)
    assert codec is Codec.RAW or codec in allowed
    easier = [replace(load, stage_ms=stage_ms * 2)]
    if link_bytes_per_s is not None:
        easier.append(replace(load, link_bytes_per_s=link_bytes_per_s * 2))
    for one in easier:
        assert BY_FAITHFULNESS.index(choose_codec(one, allowed)) <= BY_FAITHFULNESS.index(codec)


def test_limits_by_faithfulness() -> None:
    assert codecs_up_to(Codec.RAW) == {Codec.RAW}
    assert codecs_up_to(Codec.BF16) == {Codec.RAW, Codec.BF16}
    assert codecs_up_to(Codec.Q8_0) == ALL


def stages(*changes: dict[str, object], **common: object) -> tuple[Offer, ...]:
    """Stages behind slow lines that speak everything, each changed."""
    slow: dict[str, object] = {"codecs": ALL - {Codec.RAW}, "upload_bytes_per_s": 1_000} | common
    offers = (an_offer(number, len(changes)) for number in range(len(changes)))
    return tuple(change_offer(offer, **(slow | change)) for offer, change in zip(offers, changes, strict=True))


REQUEST = replace(a_request(), coarsest_codec=Codec.BF16)


def test_a_model_that_says_nothing_is_never_packed() -> None:
    assert seam_codecs(a_request(), stages({}, {}, {})) == (Codec.RAW, Codec.RAW)
    assert seam_codecs(REQUEST, stages({}, {}, {})) == (Codec.BF16, Codec.BF16)
    assert seam_codecs(REQUEST, stages({})) == ()


def test_an_exact_route_is_never_packed() -> None:
    exact = replace(a_request(is_exact=True), coarsest_codec=Codec.Q8_0)
    assert seam_codecs(exact, stages({}, {})) == (Codec.RAW,)


def test_both_ends_must_speak_it() -> None:
    old: dict[str, object] = {"codecs": frozenset()}
    assert seam_codecs(REQUEST, stages({}, {}, old)) == (Codec.BF16, Codec.RAW)
    assert seam_codecs(REQUEST, stages(old, {}, {})) == (Codec.RAW, Codec.BF16)


def test_each_seam_goes_by_its_senders_line() -> None:
    fast: dict[str, object] = {"upload_bytes_per_s": 10**9}
    assert seam_codecs(REQUEST, stages(fast, {}, {})) == (Codec.RAW, Codec.BF16)


def test_a_line_of_which_nothing_is_said_is_a_slow_home_line() -> None:
    # 16 ms of a stage's time: a row of 2000 bytes takes 1.6 ms there.
    silent = {"upload_bytes_per_s": 0, "decode_ms_per_layer": 8.0, "prefill_ms_per_layer": 8.0, "tail_ms": 0.0}
    row_bytes = DEFAULT_UPLOAD_BYTES_PER_S * 16 // 10_000 // 4 * 4
    fits = stages({"seam_bytes_per_row": row_bytes}, {}, **silent)
    wider = stages({"seam_bytes_per_row": row_bytes + 64}, {}, **silent)
    assert (seam_codecs(REQUEST, fits), seam_codecs(REQUEST, wider)) == ((Codec.RAW,), (Codec.BF16,))


def test_nodes_of_one_machine_have_no_line_between_them() -> None:
    same: dict[str, object] = {"node_id": "one"}
    assert seam_codecs(REQUEST, stages(same, same)) == (Codec.RAW,)
    beside = [{"carrier": "auto", "link_address": address} for address in ("127.0.0.1:1", "[::1]:2")]
    assert seam_codecs(REQUEST, stages(*beside)) == (Codec.RAW,)
    apart = [{"carrier": "auto", "link_address": address} for address in ("127.0.0.1:1", "192.0.2.1:2")]
    assert seam_codecs(REQUEST, stages(*apart)) == (Codec.BF16,)
    by_name = [{"carrier": "auto", "link_address": address} for address in ("localhost:1", "example.net:2")]
    assert seam_codecs(REQUEST, stages(*by_name)) == (Codec.BF16,)


def test_the_slowest_stage_sets_the_pace() -> None:
    slow: dict[str, object] = {"decode_ms_per_layer": 1_000.0, "prefill_ms_per_layer": 1_000.0}
    assert seam_codecs(REQUEST, stages({}, {}, slow)) == (Codec.RAW, Codec.RAW)

"""What a site makes of its nodes' figures when it cuts a prompt."""

from __future__ import annotations

import pytest

from meshnet.frame import Codec
from meshnet.generation.chunking import CHUNK_ROWS, WINDOW_FRAMES_MIN, Chunking
from meshnet.v1 import session_pb2
from tests.simulators.offers import change_offer
from tests.unit.tracker_site.routes.route_kit import an_offer
from tracker_site.routes.planning.offers import Offer
from tracker_site.routes.planning.pipeline import plan_chunking

UBATCH = session_pb2.ExactClass(ubatch=512).SerializeToString()


def offers(n_stages: int, **changes: object) -> tuple[Offer, ...]:
    """Stages of 2 layers: 2.3 ms for a row and 40.4 for a chunk of 128, so 2 beside the rows and 0.3 each."""
    figures = {
        "decode_ms_per_layer": 2.3 / 2,
        "prefill_ms_per_layer": (2.0 + 128 * 0.3) / 128 / 2,
        "latency_ms": 0.0,
        "exact_class": UBATCH,
        "seam_bytes_per_row": 2048,
    }
    return tuple(change_offer(an_offer(stage, n_stages), **(figures | changes)) for stage in range(n_stages))


def planned(stages: tuple[Offer, ...], prompt_tokens: int, *, is_exact: bool, codec: Codec = Codec.RAW) -> Chunking:
    return plan_chunking(stages, [codec] * (len(stages) - 1), prompt_tokens, is_exact=is_exact)


@pytest.mark.parametrize(("stages", "rows"), [(2, 96), (4, 48), (8, 32)])
def test_more_nodes_get_smaller_chunks(stages: int, rows: int) -> None:
    assert planned(offers(stages), 1024, is_exact=False).rows == rows
    assert planned(offers(stages), 1024, is_exact=True).rows == CHUNK_ROWS


def test_a_loaded_node_takes_longer_for_all_of_it() -> None:
    idle, loaded = (planned(offers(4, sessions=busy), 1024, is_exact=False) for busy in (0, 5))
    assert idle.rows == loaded.rows
    assert loaded.interval_ms == pytest.approx(1.5 * idle.interval_ms, rel=0.02)


def test_ways_are_counted_over_both_ends() -> None:
    """Steps of 16.7 ms; a relayed hop between two nodes 20 ms from the site takes 40.5, and its answer as long."""
    chunking = planned(offers(4, latency_ms=20.0), 1024, is_exact=False)
    assert chunking.interval_ms == pytest.approx(16.7)
    # Head: (16.7 + 2 * 20.5) / 16.7 + 1; seams: (2 * 16.7 + 2 * 40.5) / 16.7 + 1, rounded up.
    assert [window.frames for window in chunking.windows] == [5, 8, 8, 8]


def test_two_shards_of_one_node_have_no_way_between_them() -> None:
    first, second, third = offers(3, latency_ms=50.0)
    chunking = planned((first, change_offer(second, node_id=first.node_id), third), 1024, is_exact=False)
    assert chunking.windows[1].frames == WINDOW_FRAMES_MIN < chunking.windows[2].frames


def test_a_narrow_upload_gets_smaller_chunks() -> None:
    wide, narrow = (planned(offers(4, upload_bytes_per_s=rate), 1024, is_exact=False) for rate in (0, 2_000_000))
    assert narrow.rows < wide.rows
    assert narrow.interval_ms > 16.0 * narrow.rows / 16


def test_packed_rows_make_a_narrow_line_wider() -> None:
    narrow = offers(4, upload_bytes_per_s=2_000_000)
    raw, packed = (planned(narrow, 1024, is_exact=False, codec=codec) for codec in (Codec.RAW, Codec.BF16))
    assert packed.interval_ms / packed.rows < raw.interval_ms / raw.rows


@pytest.mark.parametrize("exact_class", [b"", b"no message of ours", session_pb2.ExactClass().SerializeToString()])
def test_an_engine_of_unknown_rows_gets_no_more_than_before(exact_class: bytes) -> None:
    dear = offers(1, exact_class=exact_class, decode_ms_per_layer=10.0, prefill_ms_per_layer=0.08)
    assert planned(dear, 4096, is_exact=False).rows == CHUNK_ROWS
    known = offers(1, decode_ms_per_layer=10.0, prefill_ms_per_layer=0.08)
    assert planned(known, 4096, is_exact=False).rows == 512


def test_nodes_that_measured_nothing_get_what_was_before() -> None:
    chunking = planned(offers(2, decode_ms_per_layer=0.0, prefill_ms_per_layer=0.0), 1024, is_exact=False)
    assert (chunking.rows, chunking.windows[1].frames, chunking.interval_ms) == (CHUNK_ROWS, WINDOW_FRAMES_MIN, 0.0)

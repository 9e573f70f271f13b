"""How a prompt is cut: hand-computed cases, and what must hold for any route."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.generation.chunking import (
    CHUNK_ROWS,
    CHUNK_SIZES,
    FRAME_BYTES,
    HANDLING_MS,
    LONG_STEP_MS,
    PREFILL_WINDOW_BYTES,
    PROMPT_WINDOW_BYTES,
    TOKEN_ID_BYTES,
    WINDOW_FRAMES_MAX,
    WINDOW_FRAMES_MIN,
    Chunking,
    Pipeline,
    SeamLink,
    StageTime,
    choose_chunking,
    measured_rows,
    split_step_ms,
)
from meshnet.session import Window

ROW_BYTES = 2048


def a_route(stages: int, fixed_ms: float, row_ms: float, *, prompt: int = 1024, **link: float) -> Pipeline:
    """Equal stages on machines of their own."""
    time = StageTime(fixed_ms - HANDLING_MS, row_ms, 512)
    seams = [SeamLink(ROW_BYTES, **link)] * (stages - 1)
    return Pipeline(prompt, (time,) * stages, (SeamLink(0), *seams))


# --- the time of a cut ---


def test_one_chunk_passes_everything_once() -> None:
    """3 stages of 2 + 0.5 * 8 ms, and two ways of 10 ms."""
    assert a_route(3, 2.0, 0.5, prompt=8, latency_ms=10.0).prefill_ms(8) == pytest.approx(3 * 6.0 + 2 * 10.0)


def test_every_further_chunk_adds_the_slowest_part() -> None:
    """4 chunks of 2 + 0.5 * 16 = 10 ms through two stages: 20 for the first, 10 for each of the others."""
    assert a_route(2, 2.0, 0.5, prompt=64).prefill_ms(16) == pytest.approx(20.0 + 3 * 10.0)


def test_the_last_chunk_takes_what_its_rows_take() -> None:
    """16 + 16 + 8 rows: 20 for the first, 10 for the second, 2 + 4 for the rest."""
    assert a_route(2, 2.0, 0.5, prompt=40).prefill_ms(16) == pytest.approx(20.0 + 10.0 + 6.0)


def test_a_narrow_line_is_the_slowest_part() -> None:
    """16 rows of 2048 bytes and the frame's own at 1 MB/s: 33.28 ms, beside steps of 10."""
    transfer_ms = (16 * ROW_BYTES + FRAME_BYTES) / 1000
    assert transfer_ms == 33.28
    route = a_route(2, 2.0, 0.5, prompt=64, bytes_per_s=1e6)
    assert route.prefill_ms(16) == pytest.approx(20.0 + transfer_ms + 3 * transfer_ms)


def test_stages_of_one_node_take_turns() -> None:
    """The pair of steps is one machine's work: chunks come every 20 ms."""
    time = StageTime(2.0 - HANDLING_MS, 0.5, 512, "node")
    route = Pipeline(64, (time, time), (SeamLink(0), SeamLink(ROW_BYTES)))
    assert route.interval_ms(16) == pytest.approx(20.0)
    assert route.prefill_ms(16) == pytest.approx(20.0 + 3 * 20.0)


# --- the choice ---


@pytest.mark.parametrize(
    ("stages", "fixed_ms", "row_ms", "rows"),
    [
        # sqrt(P f / ((S - 1) r)) where nothing else counts: 83, 48, 31; then 101 and 292 by large fixed costs.
        (2, 2.0, 0.3, 96),
        (4, 2.0, 0.3, 48),
        (8, 2.0, 0.3, 32),
        (2, 20.0, 2.0, 96),
        (2, 25.0, 0.3, 256),
    ],
)
def test_many_stages_want_small_chunks_and_dear_steps_want_large_ones(
    stages: int, fixed_ms: float, row_ms: float, rows: int
) -> None:
    assert choose_chunking(a_route(stages, fixed_ms, row_ms)).rows == rows


def test_a_narrow_line_wants_chunks_as_small_as_steps_allow() -> None:
    assert choose_chunking(a_route(8, 20.0, 2.0, bytes_per_s=5e5)).rows == 16
    assert choose_chunking(a_route(8, 20.0, 2.0)).rows == 32


def test_a_long_way_changes_windows_and_not_the_cut() -> None:
    near, far = (choose_chunking(a_route(4, 2.0, 0.3, latency_ms=ms)) for ms in (0.0, 50.0))
    assert near.rows == far.rows == 48
    # Steps of 16.4 ms: (2 * 16.4 + 100) / 16.4, rounded up, and one.
    assert [window.frames for window in far.windows] == [3, 10, 10, 10]
    assert [window.frames for window in near.windows] == [3, 3, 3, 3]
    assert far.windows[1] == Window(10, 10 * 48 * ROW_BYTES)


def test_a_step_that_keeps_others_waiting_is_not_chosen() -> None:
    route = a_route(1, 25.0, 1.0)
    assert route.interval_ms(256) > LONG_STEP_MS
    assert choose_chunking(route).rows == CHUNK_ROWS


@pytest.mark.parametrize(("rows_max", "rows"), [(0, 128), (64, 64), (100, 96), (4, 4), (512, 512)])
def test_engines_say_how_many_rows_they_take(rows_max: int, rows: int) -> None:
    route = Pipeline(2048, (StageTime(20.0, 0.01, rows_max),), (SeamLink(0),))
    assert choose_chunking(route).rows == rows


@given(st.floats(0.1, 50.0), st.floats(2.0, 20.0), st.integers(1, 4096))
def test_one_stage_is_cut_alike_whatever_its_figures_say(fixed_ms: float, row_ms: float, prompt: int) -> None:
    """A node's own API and its site measure the same machine a moment apart, and give the same bits."""
    route = Pipeline(prompt, (StageTime(fixed_ms, row_ms, 512),), (SeamLink(0),))
    assert choose_chunking(route).rows == min(prompt, CHUNK_ROWS)


@pytest.mark.parametrize("prompt", [1, 7, 100, 128, 129])
def test_exact_routes_keep_the_cut(prompt: int) -> None:
    exact = choose_chunking(a_route(8, 2.0, 0.3, prompt=prompt, latency_ms=50.0), is_exact=True)
    assert exact.rows == min(prompt, CHUNK_ROWS)
    assert exact.windows[1].frames > 0
    assert choose_chunking(a_route(8, 2.0, 0.3)).rows != CHUNK_ROWS


@pytest.mark.parametrize("time", [StageTime(0.0, 0.0), StageTime(2.0, 0.0), StageTime(2.0, math.nan)])
def test_what_is_not_known_changes_nothing(time: StageTime) -> None:
    route = Pipeline(1000, (StageTime(2.0, 0.3), time), (SeamLink(0), SeamLink(ROW_BYTES, 50.0)))
    three = WINDOW_FRAMES_MIN
    assert choose_chunking(route) == Chunking(128, (Window(three, 0), Window(three, three * 128 * ROW_BYTES)), 0.0)


# --- what nodes say ---


def test_two_steps_make_a_line() -> None:
    """12 ms for one row and 266 for 128: 2 a row, 10 beside them."""
    assert split_step_ms(12.0, 266.0, 128) == (10.0, 2.0)
    assert split_step_ms(12.0, 12.0, 1) == (0.0, 12.0)


def test_steps_that_contradict_each_other_still_make_a_time() -> None:
    assert split_step_ms(50.0, 25.6, 128) == (50.0, 0.0)
    assert split_step_ms(1.0, 256.0, 128) == (0.0, 2.0)
    assert split_step_ms(0.0, 0.0, 128) == (0.0, 0.0)


def test_nodes_measure_what_their_engines_take() -> None:
    assert [measured_rows(*one) for one in ((512, 4096), (64, 4096), (0, 0), (512, 16))] == [128, 64, 128, 16]


# --- any route ---

TIMES = st.floats(0.0, 1e4)
ANYTHING = st.one_of(st.floats(), st.sampled_from([0.0, -1.0, math.nan, math.inf, -math.inf, 1e300, 5e-324]))


@st.composite
def routes(draw: st.DrawFn) -> Pipeline:
    """Honest routes of unlike stages and links."""
    stages = draw(st.integers(1, 8))
    times = [
        StageTime(draw(TIMES), draw(st.floats(1e-3, 1e3)), draw(st.sampled_from([0, 32, 512, 2048])))
        for _ in range(stages)
    ]
    links = [SeamLink(0, draw(st.floats(0.0, 500.0)))]
    for _ in range(stages - 1):
        rate = draw(st.one_of(st.none(), st.floats(1e4, 1e9)))
        links.append(SeamLink(draw(st.sampled_from([64, 4096, 114_688])), draw(st.floats(0.0, 500.0)), rate))
    return Pipeline(draw(st.integers(1, 8192)), tuple(times), tuple(links))


@given(routes())
def test_nothing_that_may_be_chosen_is_faster(route: Pipeline) -> None:
    chosen = choose_chunking(route)
    admissible = route.admissible_rows()
    best_ms = route.prefill_ms(chosen.rows)
    assert all(best_ms <= route.prefill_ms(rows) * (1 + 1e-9) + 0.001 for rows in admissible)
    if min(stage.rows_max or 512 for stage in route.stages) >= CHUNK_ROWS:
        assert CHUNK_ROWS in admissible


@given(routes(), st.booleans())
def test_windows_keep_the_pipe_full_within_their_bounds(route: Pipeline, is_exact: bool) -> None:
    chosen = choose_chunking(route, is_exact=is_exact)
    for index, (link, window) in enumerate(zip(route.links, chosen.windows, strict=True)):
        chunk_bytes = chosen.rows * link.row_bytes
        assert 1 <= window.frames <= WINDOW_FRAMES_MAX
        assert window.tensor_bytes == window.frames * chunk_bytes <= PREFILL_WINDOW_BYTES
        if not chunk_bytes:
            assert window.frames * (chosen.rows * TOKEN_ID_BYTES + FRAME_BYTES) <= PROMPT_WINDOW_BYTES
        ends = route.stages[max(0, index - 1) : index + 1]
        busy_ms = sum(stage.step_ms(chosen.rows) for stage in ends) + link.transfer_ms(chosen.rows) + 2 * link.way_ms
        is_bounded = window.frames == WINDOW_FRAMES_MAX or (window.frames + 1) * chunk_bytes > PREFILL_WINDOW_BYTES
        is_bounded |= not chunk_bytes and window.frames >= PROMPT_WINDOW_BYTES // (chosen.rows * 5 + FRAME_BYTES)
        assert is_bounded or window.frames * chosen.interval_ms >= busy_ms


@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING, st.integers(0, 2**31), st.integers(1, 2**20))
def test_hostile_figures_bound_nothing_less(
    fixed_ms: float, row_ms: float, latency_ms: float, rate: float, row_bytes: int, prompt: int
) -> None:
    """Whatever is claimed, there is a cut, and what may be in flight stays within what everybody has."""
    time = StageTime(fixed_ms, row_ms, 512)
    links = (SeamLink(0, latency_ms, rate), SeamLink(row_bytes, latency_ms, rate))
    chosen = choose_chunking(Pipeline(prompt, (StageTime(1.0, 1.0, 512), time), links))
    assert 1 <= chosen.rows <= min(prompt, max(CHUNK_SIZES))
    assert math.isfinite(chosen.interval_ms)
    for window in chosen.windows:
        assert 1 <= window.frames <= WINDOW_FRAMES_MAX
        assert window.tensor_bytes <= PREFILL_WINDOW_BYTES

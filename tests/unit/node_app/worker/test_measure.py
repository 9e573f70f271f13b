from __future__ import annotations

import pytest

from meshnet.errors import WorkerError
from node_app.worker.client import ProbeResult
from node_app.worker.measure import TRACKED_PROBES, ShardShape, SpeedTracker, measure_shard, spread_times


class SteadyProber:
    """Costs 100 us a row and layer on 10 layers, plus 250 us for the tail; first steps are slow."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    async def probe(self, rows: int, timeout_s: float) -> ProbeResult:
        is_first = rows not in self.rows
        self.rows.append(rows)
        return ProbeResult(compute_us=1000 * rows + 250 + 100_000 * is_first, output_digest=b"")


async def test_times_are_spread_over_layers_rows_and_tail() -> None:
    prober = SteadyProber()
    speed = (await measure_shard(prober, ShardShape(n_layers=10, tail_share=0.2, chunk_rows=8))).speed
    assert speed.decode_ms_per_layer == pytest.approx(0.1)
    assert speed.tail_ms == pytest.approx(0.25)
    assert speed.prefill_ms_per_layer == pytest.approx(0.1)
    assert prober.rows == [1] * 6 + [8] * 3


async def test_an_engine_of_smaller_steps_is_measured_with_smaller_chunks() -> None:
    class NarrowProber(SteadyProber):
        async def probe(self, rows: int, timeout_s: float) -> ProbeResult:
            if rows > 2:
                raise WorkerError("message_too_large", "Too large", "there are more rows than a step takes")
            return await super().probe(rows, timeout_s)

    shape = ShardShape(n_layers=10, tail_share=0.2, chunk_rows=8)
    speed = (await measure_shard(NarrowProber(), shape)).speed
    assert speed.prefill_ms_per_layer == pytest.approx(0.1)


@pytest.mark.parametrize("code", ["worker_lost", "engine_failed"])
async def test_any_other_failure_is_the_workers(code: str) -> None:
    class FailingProber(SteadyProber):
        async def probe(self, rows: int, timeout_s: float) -> ProbeResult:
            raise WorkerError(code, "Failed", "why")

    with pytest.raises(WorkerError, match=code):
        await measure_shard(FailingProber(), ShardShape(n_layers=10, tail_share=0.2))


def test_later_probes_correct_a_measurement_on_a_busy_machine() -> None:
    tracker = SpeedTracker(ShardShape(n_layers=1, tail_share=0.0, chunk_rows=10), [8000] * 5, prefill_us=40_000)
    assert (tracker.speed.decode_ms_per_layer, tracker.speed.prefill_ms_per_layer) == (8.0, 4.0)
    for _ in range(TRACKED_PROBES // 2 + 1):
        tracker.observe(1000)
    assert (tracker.speed.decode_ms_per_layer, tracker.speed.prefill_ms_per_layer) == (1.0, 0.5)
    tracker.observe(50_000)  # one outlier changes nothing
    assert tracker.speed.decode_ms_per_layer == 1.0


def test_a_shard_that_takes_no_measurable_time_has_a_speed() -> None:
    tracker = SpeedTracker(ShardShape(n_layers=1, tail_share=0.0), [0, 0, 0], prefill_us=0.0)
    tracker.observe(0)
    assert tracker.speed.decode_ms_per_layer == 0.0


def test_a_shard_without_a_tail_gives_it_no_time() -> None:
    speed = spread_times(ShardShape(n_layers=4, tail_share=0.0, chunk_rows=16), decode_us=400, prefill_us=6400)
    assert (speed.decode_ms_per_layer, speed.prefill_ms_per_layer, speed.tail_ms) == pytest.approx((0.1, 0.1, 0.0))


def test_a_chunk_faster_than_the_tail_is_not_negative() -> None:
    assert spread_times(ShardShape(1, 0.5), decode_us=1000, prefill_us=10).prefill_ms_per_layer == 0.0

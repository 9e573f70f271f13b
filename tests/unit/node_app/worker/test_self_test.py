"""The verdict on a shard: from its rows, by both ways of computing them, and from nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from meshnet.errors import ArtifactError, WorkerError
from meshnet.golden.comparing import RowErrors
from meshnet.golden.probe import GoldenProbe, GoldenRows
from meshnet.v1 import frame_pb2, session_pb2, worker_pb2
from node_app.settings import LayerSpan
from node_app.worker import self_test
from node_app.worker.self_test import NOT_ASKED, ShardToProve, prove_shard
from tests.simulators.fake_engine import FakeShard
from tests.simulators.probe import run_probe, spoil
from tests.simulators.shard_load import ShardLoad
from tests.unit.meshnet.golden.goldens import fake_golden

N_LAYERS, WIDTH = 4, 16
GOLDEN = fake_golden(N_LAYERS, WIDTH)
SPANS = [LayerSpan(begin, end) for begin in range(N_LAYERS) for end in range(begin + 1, N_LAYERS + 1)]


@dataclass
class FakeRunner:
    """Computes as the fake model's shard does; `change` is what becomes of its rows in steps of `when` rows."""

    layers: LayerSpan
    change: Callable[[frame_pb2.Tensor], frame_pb2.Tensor] = lambda tensor: tensor
    when: tuple[int, ...] = (0, 1)
    steps: list[int] = field(default_factory=list)

    async def run_rows(self, request: worker_pb2.ProbeRequest, timeout_s: float) -> frame_pb2.Tensor:
        assert request.want_outputs
        self.steps.append(request.step_rows)
        shard = FakeShard(N_LAYERS, WIDTH, self.layers.layer_begin, self.layers.layer_end)
        load = ShardLoad(shard, 0, 0, 64, 64, 1, 64, session_pb2.BoundaryContract())
        (tensor,) = run_probe(load, request)
        return self.change(tensor) if request.step_rows in self.when else tensor


async def verdict(runner: FakeRunner, golden: GoldenProbe = GOLDEN) -> tuple[bool, str]:
    result = await prove_shard(runner, ShardToProve(runner.layers, "fake"), golden)
    return result.is_passed, result.text


@pytest.mark.parametrize("span", SPANS, ids=str)
async def test_every_shard_of_a_good_worker_passes_both_ways(span: LayerSpan) -> None:
    runner = FakeRunner(span)
    is_passed, words = await verdict(runner)
    assert is_passed, words
    assert runner.steps == [0, 1]
    assert words.count("8 of 8 rows near") == 2


@pytest.mark.parametrize("span", SPANS, ids=str)
@pytest.mark.parametrize("how", ["rows", "nan", "half", "width"])
@pytest.mark.parametrize("when", [0, 1])
async def test_every_shard_of_a_broken_worker_fails_either_way(span: LayerSpan, how: str, when: int) -> None:
    is_passed, words = await verdict(FakeRunner(span, lambda tensor: spoil(tensor, how), (when,)))
    assert not is_passed
    assert words


async def test_a_shard_that_gives_back_what_it_took_fails() -> None:
    def lazy(tensor: frame_pb2.Tensor) -> frame_pb2.Tensor:
        return frame_pb2.Tensor(shape=tensor.shape, data=GOLDEN.hidden[2].data)

    is_passed, words = await verdict(FakeRunner(LayerSpan(2, 3), lazy))
    assert not is_passed
    assert "0 of 8 rows near" in words


async def test_the_golden_rows_of_another_model_fail() -> None:
    is_passed, _ = await verdict(FakeRunner(LayerSpan(0, 4)), fake_golden(N_LAYERS, WIDTH, bytes(32)))
    assert is_passed  # the same weights: other token ids, and their rows
    other = fake_golden(5, WIDTH)
    is_passed, words = await verdict(FakeRunner(LayerSpan(0, 3)), other)
    assert is_passed, words
    narrow = fake_golden(N_LAYERS, 8)
    is_passed, words = await verdict(FakeRunner(LayerSpan(0, 3)), narrow)
    assert not is_passed
    assert "8 rows of 16 instead of 8 of 8" in words


async def test_a_probe_without_rows_at_an_end_proves_nothing() -> None:
    excerpt = GoldenProbe(GOLDEN.artifact_digest, 4, "fake", "", GOLDEN.token_ids, {1: GOLDEN.hidden[1]}, None)
    with pytest.raises(ArtifactError, match="no_golden_rows"):
        await verdict(FakeRunner(LayerSpan(1, 3)), excerpt)


def refusing(code: str, times: int = 10**6) -> Callable[[frame_pb2.Tensor], frame_pb2.Tensor]:
    left = [times]

    def change(tensor: frame_pb2.Tensor) -> frame_pb2.Tensor:
        left[0] -= 1
        if left[0] >= 0:
            raise WorkerError(code, "Refused", "why")
        return tensor

    return change


@pytest.mark.parametrize("code", sorted(NOT_ASKED))
async def test_a_worker_that_could_not_be_asked_has_no_verdict(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "BUSY_WAIT_S", 0.0)
    with pytest.raises(WorkerError, match=code):
        await verdict(FakeRunner(LayerSpan(0, 4), refusing(code)))


@pytest.mark.parametrize("code", ["not_finite", "engine_failed", "wrong_shape", "bad_token_id"])
async def test_a_worker_that_cannot_compute_the_rows_fails(code: str) -> None:
    is_passed, words = await verdict(FakeRunner(LayerSpan(0, 4), refusing(code)))
    assert (is_passed, code in words) == (False, True)


async def test_a_sequence_that_is_still_taken_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "BUSY_WAIT_S", 0.0)
    is_passed, _ = await verdict(FakeRunner(LayerSpan(0, 4), refusing("too_many_sessions", times=3)))
    assert is_passed


@pytest.mark.parametrize(("span", "function"), [(LayerSpan(0, 4), "compare_logits"), (LayerSpan(1, 3), "compare_rows")])
async def test_rows_are_compared_beside_the_event_loop(
    span: LayerSpan, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = getattr(self_test, function)
    threads: list[int] = []

    def noted(*rows: GoldenRows | None) -> RowErrors:
        threads.append(threading.get_ident())
        errors: RowErrors = compare(*rows)
        return errors

    monkeypatch.setattr(self_test, function, noted)
    is_passed, words = await verdict(FakeRunner(span))
    assert is_passed, words
    assert len(threads) == 2
    assert threading.get_ident() not in threads

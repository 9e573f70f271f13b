from __future__ import annotations

import pytest

from meshnet.errors import WorkerError
from node_app.worker.limits import SYSTEM_HEADROOM_BYTES, ShardNeed, Wishes, plan_limits

MIB = 1024 * 1024
NEED = ShardNeed(weights_bytes=100 * MIB, kv_bytes_per_cell=16 * 1024, width=576, model_context_length=8192)
WISHES = Wishes(threads=None, context_length=None, max_sessions=8)
FIXED_BYTES = NEED.weights_bytes + NEED.compute_bytes + SYSTEM_HEADROOM_BYTES


def test_plenty_of_memory_gives_every_session_its_whole_context() -> None:
    limits = plan_limits(NEED, WISHES, cores=4, memory_bytes=8192 * MIB)
    assert (limits.threads, limits.context_length, limits.kv_cells) == (4, 4096, 4096 * 8)
    assert limits.max_sessions == 8


def test_unknown_memory_refuses_nothing() -> None:
    assert plan_limits(NEED, WISHES, cores=1, memory_bytes=None).kv_cells == 4096 * 8


def test_little_memory_takes_sessions_and_never_context() -> None:
    limits = plan_limits(NEED, WISHES, cores=4, memory_bytes=FIXED_BYTES + 5000 * NEED.kv_bytes_per_cell)
    assert (limits.context_length, limits.kv_cells, limits.max_sessions) == (4096, 4096, 1)


def test_too_little_memory_is_refused_with_the_figures() -> None:
    with pytest.raises(WorkerError, match="not_enough_memory") as caught:
        plan_limits(NEED, WISHES, cores=4, memory_bytes=FIXED_BYTES + 4095 * NEED.kv_bytes_per_cell)
    assert "weights 100 MiB" in caught.value.message
    assert "KV of 4096 positions 64 MiB" in caught.value.message


def test_an_asked_context_is_kept_or_refused() -> None:
    asked = Wishes(threads=2, context_length=8192, max_sessions=1)
    assert plan_limits(NEED, asked, cores=4, memory_bytes=None).context_length == 8192
    with pytest.raises(WorkerError, match="context_too_long"):
        plan_limits(NEED, Wishes(None, 8193, 1), cores=4, memory_bytes=None)


@pytest.mark.parametrize(("asked", "cores", "threads"), [(None, 4, 4), (2, 4, 2), (9, 4, 4)])
def test_running_threads_never_exceed_the_cores(asked: int | None, cores: int, threads: int) -> None:
    assert plan_limits(NEED, Wishes(asked, None, 1), cores, None).threads == threads


def test_the_estimate_of_buffers_holds_what_was_measured() -> None:
    assert 102 * MIB < NEED.compute_bytes < 2 * 102 * MIB


def test_a_model_without_kv_needs_none() -> None:
    fake = ShardNeed(weights_bytes=0, kv_bytes_per_cell=0, width=16, model_context_length=1024)
    assert plan_limits(fake, WISHES, cores=1, memory_bytes=1024 * MIB).context_length == 1024

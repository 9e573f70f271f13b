from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import pytest

from meshnet.artifact.gguf import read_header
from meshnet.artifact.model.caches import LayerCache, Rows, read_caches
from meshnet.artifact.model.inventory import take_inventory
from meshnet.artifact.model.memory import KEPT_STATE_BYTES_MAX, Load, ModelMemory, compute_bytes, rewind_bytes
from meshnet.errors import WorkerError
from node_app.artifacts import model_file
from node_app.settings import LayerSpan
from node_app.worker.limits import SYSTEM_HEADROOM_BYTES, SYSTEM_HEADROOM_PART, AskedLimits, ShardNeed, plan_limits
from tests.simulators.deepseek_v4_flash import write_deepseek_v4_flash
from tests.unit.meshnet.artifact.model.headers import a_header

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.artifact.gguf import GgufHeader
    from node_app.artifacts.model_file import ModelFile
    from tests.simulators.gguf_header import Value

MIB = 1024 * 1024
MILLION = 1_048_576
CACHES = (LayerCache((Rows(10 * 1024),)), LayerCache((Rows(6 * 1024),)))
NEED = ShardNeed(weights_bytes=100 * MIB, caches=CACHES, width=576, model_context_length=8192)
ASKED = AskedLimits(threads=None, context_length=None, max_sessions=8)
ONE_SESSION_BYTES = NEED.total_bytes(Load(4096, 1)) + SYSTEM_HEADROOM_BYTES

HEADS: dict[str, Value] = {"attention.head_count": 4, "attention.head_count_kv": 2}
STATES: dict[str, Value] = {
    "ssm.conv_kernel": 4, "ssm.inner_size": 4096, "ssm.state_size": 128, "ssm.group_count": 16,
    "ssm.time_step_rank": 32,
}  # fmt: skip


def test_plenty_of_memory_gives_every_session_its_whole_context() -> None:
    limits = plan_limits(NEED, ASKED, cores=4, memory_bytes=8192 * MIB)
    assert (limits.threads, limits.context_length, limits.kv_cells) == (4, 4096, 4096 * 8)
    assert limits.max_sessions == 8


def test_unknown_memory_refuses_nothing() -> None:
    assert plan_limits(NEED, ASKED, cores=1, memory_bytes=None).kv_cells == 4096 * 8


@pytest.mark.parametrize(("spare_mib", "sessions"), [(0, 1), (69, 1), (70, 2), (7 * 70 - 1, 7), (7 * 70, 8), (999, 8)])
def test_little_memory_takes_sessions_and_never_context(spare_mib: int, sessions: int) -> None:
    # A session more takes 64 MiB of cells and 6 MiB of buffers.
    limits = plan_limits(NEED, ASKED, cores=4, memory_bytes=ONE_SESSION_BYTES + spare_mib * MIB)
    assert (limits.context_length, limits.kv_cells, limits.max_sessions) == (4096, 4096 * sessions, sessions)


def test_too_little_memory_is_refused_with_the_figures() -> None:
    with pytest.raises(WorkerError, match="not_enough_memory") as caught:
        plan_limits(NEED, ASKED, cores=4, memory_bytes=ONE_SESSION_BYTES - 1)
    assert caught.value.message == (
        "needs 816 MiB (weights 100 MiB, a session of 4096 positions 64 MiB, compute buffers 140 MiB, "
        "left to the system 512 MiB), 816 MiB are available; serve fewer --layers or a shorter --context"
    )


def test_an_asked_context_is_kept_or_refused() -> None:
    asked = AskedLimits(threads=2, context_length=8192, max_sessions=1)
    assert plan_limits(NEED, asked, cores=4, memory_bytes=None).context_length == 8192
    with pytest.raises(WorkerError, match="context_too_long"):
        plan_limits(NEED, AskedLimits(None, 8193, 1), cores=4, memory_bytes=None)


@pytest.mark.parametrize(("asked", "cores", "threads"), [(None, 4, 4), (2, 4, 2), (9, 4, 4)])
def test_running_threads_never_exceed_the_cores(asked: int | None, cores: int, threads: int) -> None:
    assert plan_limits(NEED, AskedLimits(asked, None, 1), cores, None).threads == threads


def test_the_estimate_of_buffers_holds_what_was_measured() -> None:
    assert 102 * MIB < compute_bytes(576, Load(2048, 1)) < 2 * 102 * MIB


def test_a_model_without_kv_needs_none() -> None:
    fake = ShardNeed(weights_bytes=0, caches=(LayerCache(),), width=16, model_context_length=1024)
    assert plan_limits(fake, ASKED, cores=1, memory_bytes=1024 * MIB).max_sessions == 8


def test_the_demonstration_model_keeps_its_sessions_on_a_small_machine() -> None:
    """SmolLM2-135M whole: 30 layers with three KV heads of 64, 92 MiB of weights as Q4_1."""
    caches = (LayerCache((Rows(3 * (64 + 64) * 2),)),) * 30
    need = ShardNeed(weights_bytes=92 * MIB, caches=caches, width=576, model_context_length=8192)
    assert plan_limits(need, ASKED, cores=2, memory_bytes=1536 * MIB).max_sessions == 8


@dataclass(frozen=True)
class Headers:
    """A model of which there is a header and no weights."""

    model: ModelFile
    header: GgufHeader

    @property
    def need(self) -> ShardNeed:
        return ShardNeed(self.model.weights_bytes, self.model.caches, self.model.width, self.model.context_length)


def open_headers(folder: Path, architecture: str, span: LayerSpan) -> Headers:
    if architecture == "deepseek4":
        path = write_deepseek_v4_flash(folder / "v4.gguf")
    else:
        figures = HEADS | {"context_length": MILLION, "attention.sliding_window": 128} | STATES
        path = a_header(folder, architecture, 8, figures).paths[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_file, "refuse_missing", lambda _header, _names: None)
        return Headers(model_file.open_model(path, span), read_header(path))


def smallest_memory(told_bytes: int) -> int:
    """Memory that leaves so much beside what is left to the system."""

    def left(memory_bytes: int) -> int:
        return memory_bytes - max(SYSTEM_HEADROOM_BYTES, int(memory_bytes * SYSTEM_HEADROOM_PART))

    return bisect_left(range(2 * (told_bytes + SYSTEM_HEADROOM_BYTES)), told_bytes, key=left)


@pytest.mark.parametrize(
    ("architecture", "span"),
    [
        ("qwen35", LayerSpan(0, 3)),
        ("qwen35", LayerSpan(2, 8)),
        ("gemma3", LayerSpan(0, 4)),
        ("gemma3", LayerSpan(0, 8)),
        ("deepseek4", LayerSpan(0, 27)),
    ],
)
def test_sessions_are_planned_to_the_byte_that_inspect_tells(
    architecture: str, span: LayerSpan, tmp_path: Path
) -> None:
    opened = open_headers(tmp_path, architecture, span)
    inventory, caches = take_inventory(opened.header), read_caches(opened.header)
    for context_length, sessions in product([1000, 4096, MILLION], [1, 3]):
        told = ModelMemory(inventory, caches, opened.header.embedding_length, Load(context_length, sessions))
        memory_bytes = smallest_memory(told.of(span.layer_begin, span.layer_end).total_bytes)
        asked = AskedLimits(None, context_length, 8)
        assert plan_limits(opened.need, asked, 2, memory_bytes).max_sessions == sessions
        # A byte less is a session less.
        if sessions > 1:
            assert plan_limits(opened.need, asked, 2, memory_bytes - 1).max_sessions == sessions - 1
        else:
            with pytest.raises(WorkerError, match="not_enough_memory"):
                plan_limits(opened.need, asked, 2, memory_bytes - 1)


@pytest.mark.parametrize(
    ("architecture", "span", "load", "by_hand"),
    [
        # Three layers' states, for each of five sessions.
        ("qwen35", LayerSpan(0, 3), Load(MILLION, 5), 5 * 3 * (3 * (4096 + 2 * 16 * 128) + 128 * 4096) * 4),
        # Windows of 128 and a ubatch take 768 cells of 128 bytes.
        ("gemma3", LayerSpan(0, 4), Load(MILLION, 2), 2 * 4 * 768 * 128),
        # 1,000 positions take 1,024 cells.
        ("gemma3", LayerSpan(5, 6), Load(1000, 1), 1024 * 128),
    ],
)
def test_states_windows_and_padding_are_counted(
    architecture: str, span: LayerSpan, load: Load, by_hand: int, tmp_path: Path
) -> None:
    assert open_headers(tmp_path, architecture, span).need.cache_bytes(load) == by_hand


@pytest.mark.parametrize(
    ("architecture", "span", "sessions", "by_hand"),
    [
        # Two states each, of the same sizes as the caches'; a window holds 128 rows of 128 bytes.
        ("qwen35", LayerSpan(0, 3), 5, 5 * 2 * 3 * (3 * (4096 + 2 * 16 * 128) + 128 * 4096) * 4),
        ("gemma3", LayerSpan(0, 4), 2, 2 * 2 * 4 * 128 * 128),
        ("gemma3", LayerSpan(5, 6), 2, 0),
        ("llama", LayerSpan(0, 8), 2, 0),
        ("qwen35", LayerSpan(0, 3), 500, KEPT_STATE_BYTES_MAX),
    ],
)
def test_states_to_go_back_to_are_counted(
    architecture: str, span: LayerSpan, sessions: int, by_hand: int, tmp_path: Path
) -> None:
    assert rewind_bytes(open_headers(tmp_path, architecture, span).need.caches, sessions) == by_hand

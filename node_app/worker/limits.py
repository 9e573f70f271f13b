"""How much of this machine a worker may use, decided before anything is loaded.

Invariant: pure. Weights, what all sessions keep, compute buffers and room for the operating system must fit together,
by the sums of `meshnet inspect`; what does not fit is refused here with the figures, not found out by the kernel at
the first token.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.artifact.model.caches import UBATCH_ROWS
from meshnet.artifact.model.memory import Load, cache_bytes, compute_bytes
from meshnet.errors import WorkerError

if TYPE_CHECKING:
    from meshnet.artifact.model.caches import LayerCache

DEFAULT_CONTEXT_LENGTH = 4096

# Left to the rest of the machine: the larger of a fixed amount and a part of all memory.
SYSTEM_HEADROOM_BYTES = 512 * 1024 * 1024
SYSTEM_HEADROOM_PART = 0.05

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ShardNeed:
    """What the asked shard needs.

    Attributes:
        weights_bytes: of the owned tensors.
        caches: of the owned layers.
        width: elements of a hidden row.
        model_context_length: positions the model was trained for.
    """

    weights_bytes: int
    caches: tuple[LayerCache, ...]
    width: int
    model_context_length: int

    def cache_bytes(self, load: Load) -> int:
        """What the worker allocates for its sessions."""
        return cache_bytes(self.caches, load)

    def total_bytes(self, load: Load) -> int:
        """Weights, caches and buffers."""
        return self.weights_bytes + self.cache_bytes(load) + compute_bytes(self.width, load)


@dataclass(frozen=True, slots=True)
class AskedLimits:
    """Limits that the volunteer asked for; None: the default, as far as it fits."""

    threads: int | None
    context_length: int | None
    max_sessions: int


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What Load is told. `kv_cells` is the total over all sessions."""

    threads: int
    context_length: int
    kv_cells: int
    max_sessions: int
    ubatch_rows: int


def plan_limits(need: ShardNeed, asked: AskedLimits, cores: int, memory_bytes: int | None) -> WorkerLimits:
    """Choose threads, context and KV cells.

    The context length is part of a route's contract (it picks rope factors), so memory never changes it: a node short
    of memory serves fewer sessions at once, down to one, or none at all. Source: docs/adr/0007.

    Args:
        need: of the shard.
        asked: limits that the volunteer asked for.
        cores: running threads that make sense here.
        memory_bytes: available now; None where unknown, then nothing is refused.

    Raises:
        WorkerError: `not_enough_memory`, with the figures; or `context_too_long`.
    """
    context_length = _context_length(need, asked)
    # The engine gives every sequence cells of its own, a whole context of them: what does not fit is a session less.
    sessions = asked.max_sessions
    if memory_bytes is not None:
        sessions = _sessions_that_fit(need, context_length, sessions, memory_bytes)
    if sessions < 1:
        raise _not_enough(need, context_length, memory_bytes or 0)
    return WorkerLimits(
        threads=min(asked.threads or cores, cores),
        context_length=context_length,
        kv_cells=context_length * sessions,
        max_sessions=sessions,
        ubatch_rows=UBATCH_ROWS,
    )


def _context_length(need: ShardNeed, asked: AskedLimits) -> int:
    if asked.context_length is None:
        return min(need.model_context_length, DEFAULT_CONTEXT_LENGTH)
    if asked.context_length > need.model_context_length:
        message = f"--context {asked.context_length}: the model has {need.model_context_length} positions"
        raise WorkerError("context_too_long", "Context too long", message)
    return asked.context_length


def _headroom_bytes(memory_bytes: int) -> int:
    return max(SYSTEM_HEADROOM_BYTES, int(memory_bytes * SYSTEM_HEADROOM_PART))


def _sessions_that_fit(need: ShardNeed, context_length: int, asked: int, memory_bytes: int) -> int:
    """Return the most sessions, up to `asked`, that fit; 0: not even one."""
    left_bytes = memory_bytes - _headroom_bytes(memory_bytes)
    counts = range(1, asked + 1)
    return bisect_right(counts, left_bytes, key=lambda count: need.total_bytes(Load(context_length, count)))


def _not_enough(need: ShardNeed, context_length: int, memory_bytes: int) -> WorkerError:
    load = Load(context_length, 1)
    sizes = {
        "weights": need.weights_bytes,
        f"a session of {context_length} positions": need.cache_bytes(load),
        "compute buffers": compute_bytes(need.width, load),
        "left to the system": _headroom_bytes(memory_bytes),
    }
    listed = ", ".join(f"{name} {size / MIB:.0f} MiB" for name, size in sizes.items() if size)
    message = (
        f"needs {sum(sizes.values()) / MIB:.0f} MiB ({listed}), {memory_bytes / MIB:.0f} MiB are available; "
        "serve fewer --layers or a shorter --context"
    )
    return WorkerError("not_enough_memory", "Not enough memory", message)

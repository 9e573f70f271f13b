"""Decides how many threads and how much memory a worker may use, before anything is loaded.

Invariants: pure. Weights, the caches of all sessions, compute buffers and room for the operating system must fit into
the memory, by the same sums that `meshnet inspect` shows. If they do not, the shard is refused here with an error that
lists the sizes; otherwise the kernel would kill the worker at the first token.
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

# Left to the rest of the machine: the fixed amount or this part of the available memory, whichever is larger.
SYSTEM_HEADROOM_BYTES = 512 * 1024 * 1024
SYSTEM_HEADROOM_PART = 0.05

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ShardNeed:
    """The sizes of a shard that decide how much memory it needs.

    Attributes:
        weights_bytes: bytes of the tensors that the shard owns.
        caches: a description of the cache of each layer.
        width: elements of a hidden row.
        model_context_length: the number of positions for which the model was trained.
    """

    weights_bytes: int
    caches: tuple[LayerCache, ...]
    width: int
    model_context_length: int

    def cache_bytes(self, load: Load) -> int:
        """Return the bytes that the worker allocates for the caches of its sessions."""
        return cache_bytes(self.caches, load)

    def total_bytes(self, load: Load) -> int:
        """Return the bytes of weights, caches and compute buffers together."""
        return self.weights_bytes + self.cache_bytes(load) + compute_bytes(self.width, load)


@dataclass(frozen=True, slots=True)
class AskedLimits:
    """The limits that the volunteer asked for; None means the default."""

    threads: int | None
    context_length: int | None
    max_sessions: int


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """The limits that the worker gets with Load. `kv_cells` is the total for all sessions."""

    threads: int
    context_length: int
    kv_cells: int
    max_sessions: int
    ubatch_rows: int


def plan_limits(need: ShardNeed, asked: AskedLimits, cores: int, memory_bytes: int | None) -> WorkerLimits:
    """Choose threads, context length, sessions and KV cells.

    If memory is short, the node serves fewer sessions at once. It never shortens the context: its length is part of a
    route's contract, since it decides the rope factors. Source: docs/adr/0007.

    Args:
        need: the shard's sizes.
        asked: limits that the volunteer asked for.
        cores: the number of threads that can run at once here.
        memory_bytes: memory that is available now; if it is unknown (None), nothing is refused.

    Raises:
        WorkerError: `not_enough_memory`: not even one session fits; `context_too_long`: the volunteer asked for more
            positions than the model has.
    """
    context_length = _context_length(need, asked)
    # The engine reserves a whole context of cells for every session, so less memory means fewer sessions.
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
        message = f"--context {asked.context_length}: the model has only {need.model_context_length} positions"
        raise WorkerError("context_too_long", "Context too long", message)
    return asked.context_length


def _headroom_bytes(memory_bytes: int) -> int:
    return max(SYSTEM_HEADROOM_BYTES, int(memory_bytes * SYSTEM_HEADROOM_PART))


def _sessions_that_fit(need: ShardNeed, context_length: int, asked: int, memory_bytes: int) -> int:
    """Return how many sessions fit, at most `asked`; 0 if not even one does."""
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

"""A split of a model over machines of given memory, cut only where it may be cut.

Invariants: pure and exhaustive for up to `MACHINES_MAX` machines. As few machines as hold the model, since every stage
is a hop; of those splits, the one whose fullest machine is the least full. What is not needed is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.errors import MeshnetError
from meshnet.sizes import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.artifact.model.memory import ModelMemory, RangeMemory

MACHINES_MAX: Final = 8
# How finely the fullest machine's share is searched: to one in so many parts.
FILL_STEPS: Final = 1000


class SplitError(MeshnetError):
    """No split fits."""


@dataclass(frozen=True, slots=True)
class Share:
    """One machine's part: its number in the list that was given, and what it holds."""

    machine: int
    memory_bytes: int
    needs: RangeMemory


@dataclass(frozen=True, slots=True)
class Split:
    """Stages, head first."""

    shares: tuple[Share, ...]


class _Search:
    """The longest prefix of the layers that a set of machines can hold, set by set."""

    def __init__(self, model: ModelMemory, ends: Sequence[int], memories: Sequence[float]) -> None:
        self._model = model
        self._ends = ends
        self._memories = memories
        self.reached: dict[int, int] = {0: 0}
        self.last: dict[int, int] = {}

    def run(self, machines: int) -> int | None:
        """Try all sets of so many machines; the first that holds all layers."""
        frontier = [0]
        for _ in range(machines):
            following: dict[int, None] = {}
            for chosen in frontier:
                for machine in range(len(self._memories)):
                    if not chosen & 1 << machine:
                        self._add(chosen, machine)
                        following[chosen | 1 << machine] = None
            frontier = list(following)
        return next((chosen for chosen in frontier if self.reached[chosen] == self._ends[-1]), None)

    def _add(self, chosen: int, machine: int) -> None:
        grown, begin = chosen | 1 << machine, self.reached[chosen]
        end = self._furthest(begin, self._memories[machine])
        if end > self.reached.get(grown, -1):
            self.reached[grown], self.last[grown] = end, machine

    def _furthest(self, begin: int, memory_bytes: float) -> int:
        """The last legal end of a range from `begin` that fits; `begin` itself where none does."""
        first = bisect_right(self._ends, begin)
        fitting = bisect_right(
            self._ends, memory_bytes, lo=first, key=lambda end: self._model.of(begin, end).total_bytes
        )
        return self._ends[fitting - 1] if fitting > first else begin

    def order(self, chosen: int) -> list[int]:
        """The machines of a set in the order of their layers."""
        found = []
        while chosen:
            machine = self.last[chosen]
            found.append(machine)
            chosen &= ~(1 << machine)
        return found[::-1]


def plan_split(model: ModelMemory, cuts: Sequence[int], memories: Sequence[int]) -> Split:
    """The split over machines of so many bytes each.

    Raises:
        SplitError: `too_many_machines`, or `model_too_large` with what is missing.
    """
    if not 1 <= len(memories) <= MACHINES_MAX:
        message = f"a split is searched for 1 to {MACHINES_MAX} machines, not {len(memories)}"
        raise SplitError("too_many_machines", "Too many machines", message)
    ends = [*cuts, model.n_layers]
    for machines in range(1, len(memories) + 1):
        if _split_at(model, ends, memories, machines, FILL_STEPS) is not None:
            return _least_full(model, ends, memories, machines)
    raise _too_large(model, memories)


def _least_full(model: ModelMemory, ends: Sequence[int], memories: Sequence[int], machines: int) -> Split:
    low, high = 0, FILL_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        if _split_at(model, ends, memories, machines, middle) is None:
            low = middle
        else:
            high = middle
    split = _split_at(model, ends, memories, machines, high)
    if split is None:
        raise _too_large(model, memories)
    return split


def _split_at(
    model: ModelMemory, ends: Sequence[int], memories: Sequence[int], machines: int, fill: int
) -> Split | None:
    """A split that fills no machine beyond `fill` of `FILL_STEPS` parts."""
    search = _Search(model, ends, [memory * fill / FILL_STEPS for memory in memories])
    chosen = search.run(machines)
    if chosen is None:
        return None
    shares, begin, held = [], 0, 0
    for machine in search.order(chosen):
        held |= 1 << machine
        end = search.reached[held]
        if end > begin:
            shares.append(Share(machine, memories[machine], model.of(begin, end)))
        begin = end
    return Split(tuple(shares))


def _too_large(model: ModelMemory, memories: Sequence[int]) -> SplitError:
    whole = model.of(0, model.n_layers)
    have = ", ".join(map(size, memories))
    message = (
        f"it takes {size(whole.total_bytes)} on one machine at this load, {size(whole.compute_bytes)} more for each "
        f"further one; the machines have {have}, and a cut is between layers: give more memory, or ask for a shorter "
        "context or fewer sessions"
    )
    return SplitError("model_too_large", "Model does not fit", message)

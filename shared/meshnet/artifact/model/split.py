"""Splits a model over machines of given memory, at legal cuts only.

Invariants: pure; the search is exhaustive, for up to `MACHINES_MAX` machines. The split uses as few machines as can
hold the model, since every further stage costs time. Among the splits over so few machines, the one whose fullest
machine is least full is chosen. Machines that are not needed get no layers.
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
# Resolution of the search for the fullest machine's share: one part in FILL_STEPS.
FILL_STEPS: Final = 1000


class SplitError(MeshnetError):
    """The model cannot be split over the given machines."""


@dataclass(frozen=True, slots=True)
class Share:
    """One machine's part of a split: the machine's index in the list, its memory, and the memory its layers need."""

    machine: int
    memory_bytes: int
    needs: RangeMemory


@dataclass(frozen=True, slots=True)
class Split:
    """A model's layers split over machines. The shares are in the order of the layers, so the head comes first."""

    shares: tuple[Share, ...]


class _Search:
    """Finds for each set of machines (a bit mask) the longest prefix of the layers that the set can hold.

    Attributes:
        reached: for each set, the first layer after its prefix.
        last: for each set, the machine that holds the last layers of its prefix.
    """

    def __init__(self, model: ModelMemory, ends: Sequence[int], memories: Sequence[float]) -> None:
        self._model = model
        self._ends = ends
        self._memories = memories
        self.reached: dict[int, int] = {0: 0}
        self.last: dict[int, int] = {}

    def run(self, machines: int) -> int | None:
        """Try all sets of `machines` machines; return the first set that can hold all layers, or None."""
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
        """Return the largest legal end of a range from `begin` that fits into the memory, or `begin` if none fits."""
        first = bisect_right(self._ends, begin)
        fitting = bisect_right(
            self._ends, memory_bytes, lo=first, key=lambda end: self._model.of(begin, end).total_bytes
        )
        return self._ends[fitting - 1] if fitting > first else begin

    def order(self, chosen: int) -> list[int]:
        """Return the machines of the set `chosen`, in the order of the layers that they hold."""
        found = []
        while chosen:
            machine = self.last[chosen]
            found.append(machine)
            chosen &= ~(1 << machine)
        return found[::-1]


def plan_split(model: ModelMemory, cuts: Sequence[int], memories: Sequence[int]) -> Split:
    """Split a model over machines with the given memories (in bytes), at the given legal cuts.

    Raises:
        SplitError: `too_many_machines` if there are more than `MACHINES_MAX`, or none; `model_too_large` if no split
            fits, with the bytes that are needed in its message.
    """
    if not 1 <= len(memories) <= MACHINES_MAX:
        message = f"a split can be planned for 1 to {MACHINES_MAX} machines, not {len(memories)}"
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
    """Return a split over `machines` machines, or None if there is none.

    No machine is filled beyond the share `fill` / `FILL_STEPS` of its memory.
    """
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
        f"on one machine it needs {size(whole.total_bytes)} for this load, and on each further one "
        f"{size(whole.compute_bytes)} more; the machines have {have}, and every cut lies between layers: give more "
        "memory, or ask for a shorter context or fewer sessions"
    )
    return SplitError("model_too_large", "Model does not fit", message)

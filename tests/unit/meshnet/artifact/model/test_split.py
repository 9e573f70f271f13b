"""Suggested splits against brute force."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.artifact.model.caches import LayerCache, ModelCaches, Rows
from meshnet.artifact.model.inventory import Holding, Inventory
from meshnet.artifact.model.memory import Load, ModelMemory
from meshnet.artifact.model.split import FILL_STEPS, MACHINES_MAX, SplitError, plan_split
from meshnet.sizes import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MIB = 1 << 20
NONE = Holding(0, 0)


def a_model(layers: Sequence[int], *, head: int = 0, tail: int = 0, cache: int = 0) -> ModelMemory:
    """Layers and ends of so many MiB."""
    inventory = Inventory(
        head=Holding(1, head * MIB),
        layers=tuple(Holding(1, size * MIB) for size in layers),
        tail=Holding(1, tail * MIB),
        nextn=NONE,
        every_stage=NONE,
        tied_bytes=0,
        nextn_embedding_bytes=0,
    )
    caches = ModelCaches(tuple(LayerCache((Rows(cache),)) for _ in layers))
    return ModelMemory(inventory, caches, 8, Load(256, 1))


def every_cut(layers: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(1, len(layers)))


# What a stage takes beside its weights here.
FIXED = a_model([0]).of(0, 1).compute_bytes // MIB + 1


def ranges(
    layers: Sequence[int], machines: Sequence[int], cuts: Sequence[int] | None = None
) -> list[tuple[int, int, int]]:
    found = plan_split(
        a_model(layers), every_cut(layers) if cuts is None else cuts, [(size + FIXED) * MIB for size in machines]
    )
    return [(share.machine, share.needs.layer_begin, share.needs.layer_end) for share in found.shares]


def test_one_machine_that_holds_the_model_is_all_that_is_taken() -> None:
    assert ranges([10] * 4, [20, 50, 45]) == [(1, 0, 4)]


def test_two_are_filled_evenly() -> None:
    assert ranges([10] * 6, [50, 25]) == [(0, 0, 4), (1, 4, 6)]


def test_only_legal_cuts_are_made() -> None:
    assert [end for _, _, end in ranges([10] * 6, [45, 45], cuts=(2, 5))] == [2, 6]
    with pytest.raises(SplitError, match="model_too_large"):
        ranges([10] * 6, [35, 35], cuts=(2, 5))
    assert [end for _, _, end in ranges([10] * 6, [35, 35], cuts=(3,))] == [3, 6]


def test_a_model_that_does_not_fit_is_refused_with_the_figures() -> None:
    with pytest.raises(SplitError, match="model_too_large") as refused:
        ranges([10] * 6, [20, 20])
    whole = a_model([10] * 6).of(0, 6)
    assert size(whole.total_bytes) in refused.value.message
    assert f"on each further one {size(whole.compute_bytes)} more" in refused.value.message


@pytest.mark.parametrize("machines", [0, MACHINES_MAX + 1])
def test_more_machines_than_can_be_searched_are_refused(machines: int) -> None:
    with pytest.raises(SplitError, match="too_many_machines"):
        plan_split(a_model([1]), (), [MIB] * machines)


def every_split(
    layers: int, cuts: Sequence[int], machines: int
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]]]]:
    """All orders of machines with all legal ranges; written to be obvious, not fast."""
    for count in range(1, machines + 1):
        for chosen in combinations(cuts, count - 1):
            ends = [0, *chosen, layers]
            for order in permutations(range(machines), count):
                yield order, list(pairwise(ends))


@given(
    layers=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    machines=st.lists(st.integers(1, 80), min_size=1, max_size=3),
    ends=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    cut_seed=st.sets(st.integers(1, 5)),
)
def test_no_split_has_fewer_stages_or_a_less_full_machine(
    layers: list[int], machines: list[int], ends: tuple[int, int], cut_seed: set[int]
) -> None:
    model = a_model(layers, head=ends[0], tail=ends[1], cache=1000)
    cuts = sorted(cut for cut in cut_seed if cut < len(layers))
    memories = [(size + FIXED) * MIB for size in machines]
    fills = [
        (
            len(order),
            max(model.of(*one).total_bytes / memories[machine] for machine, one in zip(order, spans, strict=True)),
        )
        for order, spans in every_split(len(layers), cuts, len(memories))
    ]
    fitting = [(count, fill) for count, fill in fills if fill <= 1]
    if not fitting:
        with pytest.raises(SplitError, match="model_too_large"):
            plan_split(model, cuts, memories)
        return
    split = plan_split(model, cuts, memories)
    best = min(fitting)
    assert len(split.shares) == best[0]
    fullest = max(share.needs.total_bytes / share.memory_bytes for share in split.shares)
    assert best[1] - 1e-9 <= fullest <= best[1] + 1 / FILL_STEPS
    held = [layer for share in split.shares for layer in range(share.needs.layer_begin, share.needs.layer_end)]
    assert held == list(range(len(layers)))
    assert all(share.needs.layer_end in {*cuts, len(layers)} for share in split.shares)
    assert all(share.needs.total_bytes <= share.memory_bytes for share in split.shares)

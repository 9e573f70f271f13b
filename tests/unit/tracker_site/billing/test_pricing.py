from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker_site.billing.pricing import (
    Prices,
    Share,
    StageWork,
    charge_micros,
    credits_text,
    hold_micros,
    split_charge,
)

counts = st.integers(0, 10**7)
prices = st.builds(Prices, st.integers(0, 10**12), st.integers(0, 10**12))
works = st.lists(st.builds(StageWork, st.integers(1, 5), st.integers(0, 100), st.integers(0, 10**6)), max_size=12)


@pytest.mark.parametrize(
    ("prompt_tokens", "completion_tokens", "expected"),
    [(0, 0, 0), (1_000_000, 0, 3), (0, 1_000_000, 5), (1, 0, 1), (1, 1, 1), (400_000, 300_000, 3)],
)
def test_a_charge_is_rounded_up_once(prompt_tokens: int, completion_tokens: int, expected: int) -> None:
    charge = charge_micros(Prices(3, 5), prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    assert charge == expected


@given(prices, counts, counts, counts)
def test_no_charge_exceeds_its_hold(price: Prices, prompt: int, most: int, delivered: int) -> None:
    charge = charge_micros(price, prompt_tokens=prompt, completion_tokens=min(delivered, most))
    assert charge <= hold_micros(price, prompt_tokens=prompt, max_tokens=most)


@given(st.integers(0, 10**15), works)
def test_shares_sum_exactly_to_the_charge(charge: int, done: list[StageWork]) -> None:
    shares = split_charge(charge, done)
    has_work = any(work.layers * work.tokens for work in done)
    assert sum(share.micros for share in shares) == (charge if has_work else 0)
    assert all(share.micros > 0 for share in shares)
    assert len({share.owner_id for share in shares}) == len(shares)


@given(st.integers(0, 10**15), works)
def test_no_owner_is_more_than_one_micro_per_stage_off(charge: int, done: list[StageWork]) -> None:
    total = sum(work.layers * work.tokens for work in done)
    earned = {share.owner_id: share.micros for share in split_charge(charge, done)}
    for owner in {work.owner_id for work in done if total}:
        mine = [work for work in done if work.owner_id == owner]
        exact = charge * sum(work.layers * work.tokens for work in mine)
        assert abs(earned.get(owner, 0) * total - exact) <= len(mine) * total


def test_the_remainder_goes_to_the_largest_parts_lost() -> None:
    assert split_charge(10, [StageWork(1, 1, 1), StageWork(2, 1, 1), StageWork(3, 1, 1)]) == (
        Share(1, 4),
        Share(2, 3),
        Share(3, 3),
    )
    assert split_charge(1, [StageWork(1, 1, 1), StageWork(2, 2, 1)]) == (Share(2, 1),)


def test_an_owner_of_two_stages_gets_one_share() -> None:
    assert split_charge(30, [StageWork(1, 15, 2), StageWork(2, 10, 2), StageWork(1, 5, 2)]) == (
        Share(1, 20),
        Share(2, 10),
    )


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0"),
        (1, "0.000001"),
        (12_500_000, "12.5"),
        (10_000_000, "10"),
        (-1_000_001, "-1.000001"),
        (10**15, "1000000000"),
    ],
)
def test_credits_for_people(micros: int, text: str) -> None:
    assert credits_text(micros) == text


@pytest.mark.parametrize("call", ["prices", "charge", "split", "work"])
def test_nothing_below_zero(call: str) -> None:
    calls = {
        "prices": lambda: Prices(-1, 0),
        "charge": lambda: charge_micros(Prices(1, 1), prompt_tokens=-1, completion_tokens=0),
        "split": lambda: split_charge(-1, []),
        "work": lambda: split_charge(1, [StageWork(1, -1, 1)]),
    }
    with pytest.raises(ValueError, match="below zero"):
        calls[call]()

"""Rules of sampling that the shared vectors do not show; the vectors are in tests/contract."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.sampling import SamplingTerms, draw_uniform, log_probability, sample, top_log_probabilities

WARM = SamplingTerms(temperature=1.0, seed=11)
LOGITS = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_a_draw_is_in_the_half_open_unit_interval(seed: int, position: int, choice: int) -> None:
    assert 0.0 <= draw_uniform(seed, position, choice) < 1.0


@given(
    LOGITS,
    st.builds(
        SamplingTerms,
        temperature=st.floats(0.01, 5),
        top_p=st.floats(0, 1),
        top_k=st.integers(0, 50),
        min_p=st.floats(0, 1),
        seed=st.integers(0, 2**64 - 1),
    ),
    st.integers(0, 10_000),
)
def test_a_token_is_always_drawn_and_always_the_same(logits: list[float], terms: SamplingTerms, position: int) -> None:
    token_id = sample(logits, terms, {}, position)
    assert 0 <= token_id < len(logits)
    assert sample(logits, terms, {}, position) == token_id


@given(LOGITS)
def test_no_temperature_is_arg_max(logits: list[float]) -> None:
    assert sample(logits, SamplingTerms(), {}, 0) == logits.index(max(logits))


@given(LOGITS, st.integers(0, 1000))
def test_top_k_of_one_is_arg_max(logits: list[float], position: int) -> None:
    assert sample(logits, replace(WARM, top_k=1), {}, position) == logits.index(max(logits))


def test_draws_follow_the_distribution() -> None:
    """1,000 draws of 0.5, 0.25, 0.25: each count within 5 standard deviations; the seed is fixed."""
    drawn = Counter(sample([1.0, 1.0 - 0.6931471805599453, 1.0 - 0.6931471805599453], WARM, {}, p) for p in range(1000))
    print(json.dumps(drawn))
    assert abs(drawn[0] - 500) < 80
    assert abs(drawn[1] - 250) < 70
    assert drawn.total() == 1000


def test_every_key_part_matters() -> None:
    keys = [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (1 + 2**32, 2, 3)]
    assert len({draw_uniform(*key) for key in keys}) == len(keys)


@pytest.mark.parametrize("logits", [[1.0, float("nan")], [float("inf"), 0.0], [0.0, float("-inf")]])
def test_a_logit_that_is_not_finite_draws_nothing(logits: list[float]) -> None:
    for terms in (SamplingTerms(), WARM):
        with pytest.raises(ValueError, match="finite"):
            sample(logits, terms, {}, 0)


def test_a_temperature_that_overflows_draws_nothing() -> None:
    with pytest.raises(ValueError, match="finite"):
        sample([1e30, 0.0], replace(WARM, temperature=1e-300), {}, 0)


@given(LOGITS)
def test_log_probabilities_sum_to_one(logits: list[float]) -> None:
    assert sum(math.exp(log_probability(logits, token)) for token in range(len(logits))) == pytest.approx(1.0)
    top = top_log_probabilities(logits, 5)
    assert [item.logprob for item in top] == sorted((item.logprob for item in top), reverse=True)

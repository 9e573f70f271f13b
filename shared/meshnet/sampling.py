"""Draws a token id from raw logits, the same one on every machine.

Invariants: everything is computed in double precision, and numbers are added in a fixed order. The random number of a
draw depends only on (seed, position, choice), so any position can be drawn again. Tests compare the C++ worker's
sampler with this code, and every tail written in Python uses it. Source: docs/wire.md, Sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from meshnet.frame import TokenLogprob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Philox4x32 with 10 rounds. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), Random123.
_PHILOX_ROUNDS: Final = 10
_PHILOX_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_MASK_32: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SamplingTerms:
    """How tokens are drawn; the fields are those of `Sampling` in `session.proto`."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: bool = False
    top_logprobs: int = 0
    choice: int = 0


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return four random 32-bit numbers for a 128-bit counter and a 64-bit key, both given in 32-bit parts."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_PHILOX_ROUNDS):
        product0, product1 = _PHILOX_MULTIPLIERS[0] * c0, _PHILOX_MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product1 >> 32) ^ c1 ^ k0,
            product1 & _MASK_32,
            (product0 >> 32) ^ c3 ^ k1,
            product0 & _MASK_32,
        )
        k0, k1 = (k0 + _PHILOX_WEYL[0]) & _MASK_32, (k1 + _PHILOX_WEYL[1]) & _MASK_32
    return c0, c1, c2, c3


def draw_uniform(seed: int, position: int, choice: int) -> float:
    """Return the number in [0, 1) that decides the token at `position`; it has 53 random bits."""
    counter = (position & _MASK_32, position >> 32, choice, 0)
    r0, r1, _, _ = philox4x32(counter, (seed & _MASK_32, seed >> 32))
    return float((r0 << 32 | r1) >> 11) * 2.0**-53


def sample(logits: Sequence[float], terms: SamplingTerms, counts: Mapping[int, int], position: int) -> int:
    """Draw the token id for `position`.

    Args:
        logits: raw logits, one for each token of the vocabulary.
        terms: how the session's tokens are drawn.
        counts: how often each token id was generated before, in earlier epochs too; the prompt is not counted.
        position: position of the token that is drawn.

    Raises:
        ValueError: a logit is not finite, before or after bias, penalties and temperature are applied.
    """
    penalised = _penalise(logits, terms, counts)
    if terms.temperature == 0:
        return max(range(len(penalised)), key=lambda token: (penalised[token], -token))
    weights = _candidate_weights([value / terms.temperature for value in penalised], terms)
    target = draw_uniform(terms.seed, position, terms.choice) * _total([weight for _, weight in weights])
    running = 0.0
    for token, weight in weights:
        running += weight
        if running > target:
            return token
    return weights[-1][0]


def log_probability(logits: Sequence[float], token_id: int) -> float:
    """Return the natural log-softmax of the raw logits at `token_id`."""
    return logits[token_id] - _log_sum_exp(logits)


def top_log_probabilities(logits: Sequence[float], count: int) -> tuple[TokenLogprob, ...]:
    """Return the `count` most probable tokens, most probable first; equally probable ones by ascending id."""
    log_total = _log_sum_exp(logits)
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    return tuple(TokenLogprob(token, logits[token] - log_total) for token in order[:count])


def _penalise(logits: Sequence[float], terms: SamplingTerms, counts: Mapping[int, int]) -> list[float]:
    penalised = [float(value) for value in logits]
    for token, bias in terms.logit_bias.items():
        penalised[token] += bias
    for token, count in counts.items():
        penalised[token] -= terms.frequency_penalty * count
        penalised[token] -= terms.presence_penalty if count > 0 else 0.0
    if not all(math.isfinite(value) for value in penalised):
        raise ValueError("a logit is not finite")
    return penalised


def _candidate_weights(scaled: Sequence[float], terms: SamplingTerms) -> list[tuple[int, float]]:
    """Return (token id, unnormalised probability), by ascending id, of the tokens that top_k, top_p, min_p leave."""
    largest = max(scaled)
    if not math.isfinite(largest) or not math.isfinite(min(scaled)):
        raise ValueError("a logit divided by the temperature is not finite")
    order = sorted(range(len(scaled)), key=lambda token: (-scaled[token], token))
    if terms.top_k > 0:
        order = order[: terms.top_k]
    kept = [(token, math.exp(scaled[token] - largest)) for token in order]
    if terms.top_p < 1:
        kept = _shortest_prefix(kept, terms.top_p)
    if terms.min_p > 0:
        kept = [(token, weight) for token, weight in kept if weight >= terms.min_p]
    return sorted(kept)


def _shortest_prefix(kept: list[tuple[int, float]], top_p: float) -> list[tuple[int, float]]:
    """Return the shortest non-empty prefix of `kept` whose weight is at least `top_p` of the weight of all."""
    threshold = top_p * _total([weight for _, weight in kept])
    running = 0.0
    for length, (_, weight) in enumerate(kept, start=1):
        running += weight
        if running >= threshold:
            return kept[:length]
    return kept


def _log_sum_exp(logits: Sequence[float]) -> float:
    largest = max(logits)
    return largest + math.log(_total([math.exp(value - largest) for value in logits]))


def _total(values: Sequence[float]) -> float:
    """Return the sum, rounded after each addition as in other languages; `sum` of Python 3.12 compensates errors."""
    total = 0.0
    for value in values:
        total += value
    return total

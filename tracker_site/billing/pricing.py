"""Cost of a request and its division among the nodes' owners; pure integer arithmetic in micro-credits.

Invariants: there is no floating point. A charge never exceeds the hold that is computed from the same prices and
limits. The shares of a charge sum exactly to the charge, however they are rounded.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.constants import MICROS_PER_CREDIT

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKENS_PER_PRICE: Final = 1_000_000  # prices are per million tokens


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of prompt tokens and of completion tokens, in micro-credits per million tokens."""

    prompt_micros: int
    completion_micros: int

    def __post_init__(self) -> None:
        if self.prompt_micros < 0 or self.completion_micros < 0:
            raise ValueError("a price below zero")


def credits_text(micros: int) -> str:
    """Return micro-credits as a decimal number of credits: exact, and without trailing zeros."""
    whole, part = divmod(abs(micros), MICROS_PER_CREDIT)
    digits = f"{part:06}".rstrip("0")
    return f"{'-' if micros < 0 else ''}{whole}{'.' if digits else ''}{digits}"


@dataclass(frozen=True, slots=True)
class StageWork:
    """Work of one stage, for which its node's owner is paid: it computed `tokens` tokens through `layers` layers."""

    owner_id: int
    layers: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Share:
    """Earnings of one owner from one request."""

    owner_id: int
    micros: int


def charge_micros(prices: Prices, *, prompt_tokens: int, completion_tokens: int) -> int:
    """Return the price in micro-credits of computed prompt tokens and delivered completion tokens, rounded up once.

    Raises:
        ValueError: a count is below zero.
    """
    if prompt_tokens < 0 or completion_tokens < 0:
        raise ValueError("a token count below zero")
    exact = prompt_tokens * prices.prompt_micros + completion_tokens * prices.completion_micros
    return -(-exact // TOKENS_PER_PRICE)


def hold_micros(prices: Prices, *, prompt_tokens: int, max_tokens: int) -> int:
    """Return the most that a request can cost, in micro-credits: its prompt and `max_tokens` completion tokens."""
    return charge_micros(prices, prompt_tokens=prompt_tokens, completion_tokens=max_tokens)


def split_charge(charge: int, works: Sequence[StageWork]) -> tuple[Share, ...]:
    """Divide a charge among the owners of the stages, in proportion to layers x tokens.

    Each stage gets its part, rounded down. The micro-credits that rounding leaves over go, one each, to the stages
    with the largest remainders; if remainders are equal, the earlier stage gets it. An owner of several stages gets
    one share; shares of 0 are left out.

    Args:
        charge: micro-credits.
        works: the work of each stage, in route order. If no stage did any work, the result is empty and the site keeps
            the charge.

    Raises:
        ValueError: the charge or a count is below zero.
    """
    if charge < 0 or any(work.layers < 0 or work.tokens < 0 for work in works):
        raise ValueError("a charge or a count below zero")
    weights = [work.layers * work.tokens for work in works]
    total = sum(weights)
    if total == 0:
        return ()
    parts = [charge * weight // total for weight in weights]
    by_remainder = sorted(range(len(works)), key=lambda stage: (-(charge * weights[stage] % total), stage))
    for stage in by_remainder[: charge - sum(parts)]:
        parts[stage] += 1
    earned: defaultdict[int, int] = defaultdict(int)
    for work, part in zip(works, parts, strict=True):
        earned[work.owner_id] += part
    return tuple(Share(owner_id, micros) for owner_id, micros in earned.items() if micros)

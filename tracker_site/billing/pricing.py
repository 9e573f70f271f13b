"""What a request costs and who earns it; pure integer arithmetic in micro-credits.

Invariants: no floating point; a charge never exceeds the hold computed from the same prices and limits; the shares of a
split sum exactly to what was split, whatever the rounding.
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
    """Micro-credits per million tokens."""

    prompt_micros: int
    completion_micros: int

    def __post_init__(self) -> None:
        if self.prompt_micros < 0 or self.completion_micros < 0:
            raise ValueError("a price below zero")


def credits_text(micros: int) -> str:
    """Micro-credits as credits for people: exact, without needless zeros."""
    whole, part = divmod(abs(micros), MICROS_PER_CREDIT)
    digits = f"{part:06}".rstrip("0")
    return f"{'-' if micros < 0 else ''}{whole}{'.' if digits else ''}{digits}"


@dataclass(frozen=True, slots=True)
class StageWork:
    """What one stage did: `tokens` rows through `layers` layers, for its owner."""

    owner_id: int
    layers: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Share:
    """What one owner earns."""

    owner_id: int
    micros: int


def charge_micros(prices: Prices, *, prompt_tokens: int, completion_tokens: int) -> int:
    """What so many computed prompt tokens and delivered tokens cost; rounded up once, over the sum.

    Raises:
        ValueError: a count below zero.
    """
    if prompt_tokens < 0 or completion_tokens < 0:
        raise ValueError("a token count below zero")
    exact = prompt_tokens * prices.prompt_micros + completion_tokens * prices.completion_micros
    return -(-exact // TOKENS_PER_PRICE)


def hold_micros(prices: Prices, *, prompt_tokens: int, max_tokens: int) -> int:
    """The most that a request can cost."""
    return charge_micros(prices, prompt_tokens=prompt_tokens, completion_tokens=max_tokens)


def split_charge(charge: int, works: Sequence[StageWork]) -> tuple[Share, ...]:
    """Share a charge among the owners of the stages, by layers x tokens.

    Each stage gets the whole micro-credits of its part; what rounding leaves goes, one each, to the stages with the
    largest remainders, earlier stages first. Owners of several stages get one share; shares of nothing are left out.

    Args:
        charge: micro-credits.
        works: in route order. Without any work the result is empty, and the charge is the site's.

    Raises:
        ValueError: a charge or a count below zero.
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

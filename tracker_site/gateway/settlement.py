"""What is paid for, by how a generation ended.

Invariants: pure. A client pays for what it was given: a finished generation for its prompt and every token, a cancelled
one for the prompt chunks that were computed and the tokens that were delivered, a failed one for the delivered tokens
alone; what the tail computed beyond that is nobody's. Source: docs/adr/0008.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tracker_site.billing.pricing import StageWork, charge_micros, split_charge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracker_site.billing.pricing import Prices, Share
    from tracker_site.routes.planning.request import RouteStage


class Ending(StrEnum):
    """How a generation ended, for the bill."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened: prompt positions computed by the whole route, tokens handed to the client."""

    prompt_tokens: int
    prefill_done: int
    delivered_tokens: int


@dataclass(frozen=True, slots=True)
class Bill:
    """What the client pays and what the owners of the stages earn of it."""

    charge_micros: int
    shares: tuple[Share, ...]


def settle_bill(ending: Ending, counts: Counts, prices: Prices, stages: Sequence[RouteStage]) -> Bill:
    """Work out the bill of a generation that is over; without stages nothing was computed and nothing is owed."""
    if not stages:
        return Bill(0, ())
    paid_prompt_tokens = {
        Ending.FINISHED: counts.prompt_tokens,
        Ending.CANCELLED: min(counts.prefill_done, counts.prompt_tokens),
        Ending.FAILED: 0,
    }[ending]
    charge = charge_micros(prices, prompt_tokens=paid_prompt_tokens, completion_tokens=counts.delivered_tokens)
    tokens = paid_prompt_tokens + counts.delivered_tokens
    works = [StageWork(stage.owner_id, stage.layer_end - stage.layer_begin, tokens) for stage in stages]
    return Bill(charge, split_charge(charge, works))

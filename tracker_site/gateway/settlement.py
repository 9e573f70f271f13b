"""Computes the bill of an ended generation.

Invariants: this module is pure. If a generation finished, the client pays for its prompt and every token. If it was
cancelled, the client pays for the computed part of the prompt and the delivered tokens. If it failed, the client pays
for the delivered tokens only. Nobody pays for tokens that were computed and not delivered. Source: docs/adr/0008.
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
    """Outcome of a generation, on which the bill depends."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Counts:
    """Token counts of an ended generation.

    Attributes:
        prompt_tokens: length of the prompt.
        prefill_done: prompt tokens that the whole route has computed.
        delivered_tokens: generated tokens that the client has.
    """

    prompt_tokens: int
    prefill_done: int
    delivered_tokens: int


@dataclass(frozen=True, slots=True)
class Bill:
    """The client's charge, and the shares of it that the owners of the stages earn; in micro-credits."""

    charge_micros: int
    shares: tuple[Share, ...]


def settle_bill(ending: Ending, counts: Counts, prices: Prices, stages: Sequence[RouteStage]) -> Bill:
    """Compute the bill of an ended generation; if it had no route, the charge is 0."""
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

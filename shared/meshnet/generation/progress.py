"""The events of a running route, as the Gateway or a node's own API takes them.

Invariant: frozen values. A token here has been checked: its index follows the one before, its id is in the vocabulary,
and the generation's limits allow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from meshnet.openai.events import FinishReason
    from meshnet.openai.telemetry import Residence, StageState


@dataclass(frozen=True, slots=True)
class TokenReceived:
    """The tail has generated a token.

    Attributes:
        index: number of the token in the whole generation, from 0.
        top_logprobs: other likely tokens, as (token id, natural-log probability).
        residence: how long stages kept the row of the token's step, as (stage, times).
    """

    index: int
    token_id: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()
    finish: FinishReason | None = None
    residence: tuple[tuple[int, Residence], ...] = ()


@dataclass(frozen=True, slots=True)
class PrefillAdvanced:
    """The whole route has computed the first `done` of the prompt's `total` positions."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class StageHealthChanged:
    """The state of a stage has changed, for example from OK to LATE."""

    stage: int
    state: StageState


RouteEvent: TypeAlias = TokenReceived | PrefillAdvanced | StageHealthChanged

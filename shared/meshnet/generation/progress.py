"""What a running route tells its reader.

Invariant: frozen values. A token here has been checked: consecutive, of the vocabulary, within the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from meshnet.openai.events import FinishReason
    from meshnet.openai.telemetry import Residence, StageState


@dataclass(frozen=True, slots=True)
class TokenReceived:
    """One committed token; `top_logprobs` are (token id, natural log probability), `residence` is by stage."""

    index: int
    token_id: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()
    finish: FinishReason | None = None
    residence: tuple[tuple[int, Residence], ...] = ()


@dataclass(frozen=True, slots=True)
class PrefillAdvanced:
    """Prompt positions that the whole route has computed."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class StageHealthChanged:
    """What is known of a stage."""

    stage: int
    state: StageState


RouteEvent: TypeAlias = TokenReceived | PrefillAdvanced | StageHealthChanged

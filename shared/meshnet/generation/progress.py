"""The events that a running route gives to its reader.

Invariant: frozen values. A token here has been checked: it is consecutive, of the vocabulary and within the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from meshnet.openai.events import FinishReason
    from meshnet.openai.telemetry import Residence, StageState


@dataclass(frozen=True, slots=True)
class TokenReceived:
    """One committed token. `top_logprobs` are (token id, natural-log probability); `residence` is (stage, times)."""

    index: int
    token_id: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()
    finish: FinishReason | None = None
    residence: tuple[tuple[int, Residence], ...] = ()


@dataclass(frozen=True, slots=True)
class PrefillAdvanced:
    """Number of prompt positions that the whole route has computed, out of `total`."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class StageHealthChanged:
    """A stage's state as the reader last knew it."""

    stage: int
    state: StageState


RouteEvent: TypeAlias = TokenReceived | PrefillAdvanced | StageHealthChanged

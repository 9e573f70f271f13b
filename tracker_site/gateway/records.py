"""What is kept of a generation when it is over, as plain values.

Invariant: counts, times and codes only; no text of prompt or completion can be expressed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.openai.specification import Face
    from meshnet.openai.telemetry import Failure
    from tracker_site.billing.pricing import Share
    from tracker_site.gateway.settlement import Ending
    from tracker_site.routes.planning.request import RouteStage


@dataclass(frozen=True, slots=True)
class Record:
    """One generation that is over. Failure fields are empty where nothing failed; the stage is None where none did.

    Attributes:
        finish_reason: in the API's words; empty where it did not finish.
        completion_tokens: those that were delivered.
        first_token_ms: None where no token came.
        tokens_per_s: from the first token to the last.
    """

    generation_id: str
    user_id: int
    model_name: str
    face: Face
    ending: Ending
    finish_reason: str
    prompt_tokens: int
    max_tokens: int
    completion_tokens: int
    charge_micros: int
    first_token_ms: int | None
    elapsed_ms: int
    tokens_per_s: float
    failure: Failure | None
    stages: Sequence[RouteStage]
    shares: Sequence[Share]


class RecordStore(Protocol):
    """Keeps records."""

    async def store(self, record: Record) -> None:
        """Keep one; a second with the same id is refused."""

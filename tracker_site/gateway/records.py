"""The record of an ended generation, as plain values.

Invariant: a record has counts, times and codes, and no field for text of a prompt or completion.
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
    """The values that are stored about one ended generation.

    Attributes:
        finish_reason: the API's finish reason; empty if the generation did not finish.
        completion_tokens: tokens that were delivered to the client.
        first_token_ms: time to the first token; None if no token arrived.
        tokens_per_s: generated tokens per second, from the first token to the last.
        failure: the error that ended the generation; None if it finished.
        shares: the parts of the charge that the owners of the stages earn.
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
    """Stores the records of ended generations."""

    async def store(self, record: Record) -> None:
        """Store a record; a second record with the same id is refused."""

"""The state of a generation as clients see it: in a stream, in an answer, and when they ask for it later.

Invariant: field names are part of the public API. Fields may be added but never renamed.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Phase(StrEnum):
    """The phase of a generation. It never goes back to an earlier one, and the last is `DONE` or `FAILED`."""

    QUEUED = "queued"  # waits for its turn, or its prompt is tokenised
    ROUTING = "routing"  # a route is planned and opened
    PREFILL = "prefill"  # the route computes the prompt
    DECODE = "decode"  # tokens come
    DONE = "done"
    FAILED = "failed"


class StageState(StrEnum):
    """The state of a stage as the Gateway last knew it."""

    OK = "ok"
    LATE = "late"
    LOST = "lost"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Residence(_Part):
    """How long one stage kept the rows of the last step, in microseconds."""

    queue_us: int
    compute_us: int
    codec_us: int


class StageTelemetry(_Part):
    """One stage of the route: its node, its layers (half-open), and how it sends rows to the next stage."""

    stage: int
    node: str
    layer_begin: int
    layer_end: int
    carrier: str
    seam_bytes_per_token: int = 0
    seam_codec: str = ""
    recipe: str = ""
    residence: Residence | None = None


class StageHealth(_Part):
    """The state of a stage, and how long ago its last sign of life came, in milliseconds."""

    stage: int
    state: StageState
    last_seen_ms: int


class Failure(_Part):
    """The error with which a generation ended, and the stage at fault, if there is one."""

    code: str
    stage: int | None = None
    message: str


class Telemetry(_Part):
    """A snapshot of one generation.

    Attributes:
        elapsed_ms: time since the request came.
        prefill_done: prompt positions that the whole route has computed, out of `prefill_total`.
        tokens_per_s: rate of the last two seconds, or of the whole generation if it is over.
        failure: why it failed; None if it did not.
    """

    id: str
    phase: Phase
    elapsed_ms: int
    prefill_done: int = 0
    prefill_total: int = 0
    generated_tokens: int = 0
    tokens_per_s: float = 0.0
    stages: tuple[StageTelemetry, ...] = ()
    route_health: tuple[StageHealth, ...] = ()
    failure: Failure | None = None

"""The state of a generation as clients see it, in a stream's comments, in answers and afterwards.

Invariant: field names are part of the public API; they are added to, never renamed.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Phase(StrEnum):
    """Where a generation stands; it only moves forward, and ends in `DONE` or `FAILED`."""

    QUEUED = "queued"
    ROUTING = "routing"
    PREFILL = "prefill"
    DECODE = "decode"
    DONE = "done"
    FAILED = "failed"


class StageState(StrEnum):
    """What the gateway last knew of a stage."""

    OK = "ok"
    LATE = "late"
    LOST = "lost"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Residence(_Part):
    """Microseconds that one stage kept the last step's rows."""

    queue_us: int
    compute_us: int
    codec_us: int


class StageTelemetry(_Part):
    """One stage of the route: who computes which layers how, reached how; bytes and codec of each row it hands on."""

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
    """Whether a stage still answers, and how long ago it was last heard."""

    stage: int
    state: StageState
    last_seen_ms: int


class Failure(_Part):
    """Why a generation failed."""

    code: str
    stage: int | None = None
    message: str


class Telemetry(_Part):
    """A snapshot of one generation."""

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

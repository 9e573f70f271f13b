"""Collects the telemetry of one generation while it runs.

Invariants: pure; the caller gives the time in monotonic seconds. The phase only moves forward. `version` grows with
every change that should be shown before the next regular snapshot.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from meshnet.openai.telemetry import Failure, Phase, Residence, StageHealth, StageState, StageTelemetry, Telemetry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meshnet.errors import MeshnetError

RATE_WINDOW_S: Final = 2.0
# If less time has passed, no rate is shown, since tokens may arrive in bursts.
RATE_SPAN_MIN_S: Final = 0.2

_ORDER: Final = list(Phase)


class ShownStage(Protocol):
    """One stage of an open route, with the facts that telemetry shows."""

    @property
    def node_name(self) -> str:
        """The node's name for people."""

    @property
    def layer_begin(self) -> int:
        """First layer that the stage computes."""

    @property
    def layer_end(self) -> int:
        """First layer after those that the stage computes."""

    @property
    def carrier(self) -> str:
        """Name of the way by which rows (at the head: tokens) reach the stage, for example "relay"."""

    @property
    def seam_bytes_per_token(self) -> int:
        """Packed bytes of the row that the stage sends on for each token; 0 on the tail."""

    @property
    def seam_codec(self) -> str:
        """Name of the codec that packs the rows that the stage sends on; empty on the tail."""

    @property
    def recipe(self) -> str:
        """Name of the recipe by which the stage's engine computes; empty if it is not known."""


class _StageBoard:
    """Telemetry of one stage while the generation runs. `seen_s` is the time at which it was last heard."""

    def __init__(self, stage: ShownStage, now_s: float) -> None:
        self.stage = stage
        self.state = StageState.OK
        self.seen_s = now_s
        self.residence: Residence | None = None


class TelemetryBoard:
    """Takes the events of one generation and gives snapshots of its state."""

    def __init__(self, generation_id: str, now_s: float) -> None:
        self._id = generation_id
        self._started_s = now_s
        self._phase = Phase.QUEUED
        self._entered_s = {Phase.QUEUED: now_s}
        self._stages: list[_StageBoard] = []
        self._prefill_done = 0
        self._prefill_total = 0
        self._generated_tokens = 0
        self._token_times_s: deque[float] = deque()
        self._first_token_s: float | None = None
        self._last_token_s: float | None = None
        self._failure: Failure | None = None
        self.version = 0

    @property
    def phase(self) -> Phase:
        """The current phase of the generation."""
        return self._phase

    @property
    def is_over(self) -> bool:
        """Tell if the generation has ended."""
        return self._phase in (Phase.DONE, Phase.FAILED)

    @property
    def prefill_done(self) -> int:
        """Prompt positions that the whole route has computed."""
        return self._prefill_done

    @property
    def generated_tokens(self) -> int:
        """Tokens received from the tail."""
        return self._generated_tokens

    @property
    def first_token_ms(self) -> int | None:
        """Milliseconds from the start to the first token; None until it arrives."""
        return None if self._first_token_s is None else self._milliseconds(self._first_token_s)

    @property
    def mean_tokens_per_s(self) -> float:
        """Tokens per second from the first token to the latest; 0 if there are fewer than two."""
        if self._first_token_s is None or self._last_token_s is None or self._last_token_s <= self._first_token_s:
            return 0.0
        return (self._generated_tokens - 1) / (self._last_token_s - self._first_token_s)

    def enter(self, phase: Phase, now_s: float) -> None:
        """Move to a later phase; an earlier or equal one is ignored."""
        if _ORDER.index(phase) > _ORDER.index(self._phase):
            self._phase = phase
            self._entered_s[phase] = now_s
            self.version += 1

    def set_prompt(self, prompt_tokens: int) -> None:
        """Record the prompt's length in tokens."""
        self._prefill_total = prompt_tokens

    def set_stages(self, stages: Sequence[ShownStage], now_s: float) -> None:
        """Record the stages of the route that was opened."""
        self._stages = [_StageBoard(stage, now_s) for stage in stages]
        self.version += 1

    def advance_prefill(self, done: int, now_s: float) -> None:
        """Record that the whole route has computed the prompt up to position `done`."""
        self._prefill_done = max(self._prefill_done, min(done, self._prefill_total))
        self._see_all(now_s)
        self.version += 1

    def count_token(self, residence: Iterable[tuple[int, Residence]], now_s: float) -> None:
        """Count a token that arrived. `residence` gives (stage, times): how long stages kept the row of its step."""
        self.enter(Phase.DECODE, now_s)
        self._prefill_done = self._prefill_total
        self._generated_tokens += 1
        self._first_token_s = self._first_token_s or now_s
        self._last_token_s = now_s
        self._token_times_s.append(now_s)
        self._drop_old(now_s)
        self._see_all(now_s)
        for stage, times in residence:
            if 0 <= stage < len(self._stages):
                self._stages[stage].residence = times

    def set_health(self, stage: int, state: StageState, now_s: float) -> None:
        """Record a stage's new state. If the route has no such stage, nothing happens."""
        if 0 <= stage < len(self._stages):
            self._stages[stage].state = state
            if state is StageState.OK:
                self._stages[stage].seen_s = now_s
            self.version += 1

    def fail(self, error: MeshnetError, now_s: float) -> None:
        """Record that the generation failed. If the error names a stage, that stage counts as lost."""
        self._failure = Failure(code=error.code, stage=error.stage, message=error.message)
        if error.stage is not None:
            self.set_health(error.stage, StageState.LOST, now_s)
        self.enter(Phase.FAILED, now_s)

    def snapshot(self, now_s: float) -> Telemetry:
        """Return the state of the generation now."""
        self._drop_old(now_s)
        return Telemetry(
            id=self._id,
            phase=self._phase,
            elapsed_ms=self._milliseconds(now_s),
            prefill_done=self._prefill_done,
            prefill_total=self._prefill_total,
            generated_tokens=self._generated_tokens,
            tokens_per_s=round(self._rate(now_s), 2),
            stages=tuple(_stage_telemetry(index, board) for index, board in enumerate(self._stages)),
            route_health=tuple(_stage_health(index, board, now_s) for index, board in enumerate(self._stages)),
            failure=self._failure,
        )

    def _rate(self, now_s: float) -> float:
        """Return the tokens per second of the last two seconds, or of the whole generation if it is over."""
        if self.is_over:
            return self.mean_tokens_per_s
        if len(self._token_times_s) < 2:
            return 0.0
        span_s = now_s - self._token_times_s[0]
        return (len(self._token_times_s) - 1) / span_s if span_s >= RATE_SPAN_MIN_S else 0.0

    def _drop_old(self, now_s: float) -> None:
        while self._token_times_s and self._token_times_s[0] < now_s - RATE_WINDOW_S:
            self._token_times_s.popleft()

    def _see_all(self, now_s: float) -> None:
        """Mark every stage as seen: a row that leaves the tail has passed all of them."""
        for board in self._stages:
            board.seen_s = now_s
            board.state = StageState.OK

    def _milliseconds(self, moment_s: float) -> int:
        return round((moment_s - self._started_s) * 1000)


def _stage_telemetry(index: int, board: _StageBoard) -> StageTelemetry:
    stage = board.stage
    return StageTelemetry(
        stage=index,
        node=stage.node_name,
        layer_begin=stage.layer_begin,
        layer_end=stage.layer_end,
        carrier=stage.carrier,
        seam_bytes_per_token=stage.seam_bytes_per_token,
        seam_codec=stage.seam_codec,
        recipe=stage.recipe,
        residence=board.residence,
    )


def _stage_health(index: int, board: _StageBoard, now_s: float) -> StageHealth:
    return StageHealth(stage=index, state=board.state, last_seen_ms=max(0, round((now_s - board.seen_s) * 1000)))

"""The telemetry of one generation while it runs.

Invariants: pure; the caller gives the time (seconds, monotonic). The phase only moves forward. `version` grows with
every change that a reader may want to see at once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from meshnet.openai.telemetry import Failure, Phase, Residence, StageHealth, StageState, StageTelemetry, Telemetry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meshnet.errors import MeshnetError

RATE_WINDOW_S: Final = 2.0
# Over shorter times the figure would be noise: tokens may arrive in bursts.
RATE_SPAN_MIN_S: Final = 0.2

_ORDER: Final = list(Phase)


class ShownStage(Protocol):
    """One stage of an open route, as far as it is shown."""

    @property
    def node_name(self) -> str:
        """The node's name for people."""

    @property
    def layer_begin(self) -> int:
        """First layer that it computes."""

    @property
    def layer_end(self) -> int:
        """First layer that it does not."""

    @property
    def carrier(self) -> str:
        """How its rows come in."""

    @property
    def seam_bytes_per_token(self) -> int:
        """Bytes of the row that it hands to the next stage, as it is packed."""

    @property
    def seam_codec(self) -> str:
        """How that row is packed; empty on the last stage."""

    @property
    def recipe(self) -> str:
        """How its engine computes; empty where it does not say."""


class _StageBoard:
    """What is known of one stage."""

    def __init__(self, stage: ShownStage, now_s: float) -> None:
        self.stage = stage
        self.state = StageState.OK
        self.seen_s = now_s
        self.residence: Residence | None = None


class TelemetryBoard:
    """Collects what happens and gives snapshots."""

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
        """Where the generation stands."""
        return self._phase

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens."""
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
        """Time to the first token."""
        return None if self._first_token_s is None else self._milliseconds(self._first_token_s)

    @property
    def mean_tokens_per_s(self) -> float:
        """Rate from the first token to the last; 0 with fewer than two."""
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
        """The prompt's length is known."""
        self._prefill_total = prompt_tokens

    def set_stages(self, stages: Sequence[ShownStage], now_s: float) -> None:
        """The route is open."""
        self._stages = [_StageBoard(stage, now_s) for stage in stages]
        self.version += 1

    def advance_prefill(self, done: int, now_s: float) -> None:
        """The whole route has computed prompt positions up to `done`."""
        self._prefill_done = max(self._prefill_done, min(done, self._prefill_total))
        self._see_all(now_s)
        self.version += 1

    def count_token(self, residence: Iterable[tuple[int, Residence]], now_s: float) -> None:
        """A token arrived, after `residence` on each stage."""
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
        """The route's driver has news of a stage."""
        if 0 <= stage < len(self._stages):
            self._stages[stage].state = state
            if state is StageState.OK:
                self._stages[stage].seen_s = now_s
            self.version += 1

    def fail(self, error: MeshnetError, now_s: float) -> None:
        """The generation failed; the stage at fault, if any, is lost."""
        self._failure = Failure(code=error.code, stage=error.stage, message=error.message)
        if error.stage is not None:
            self.set_health(error.stage, StageState.LOST, now_s)
        self.enter(Phase.FAILED, now_s)

    def snapshot(self, now_s: float) -> Telemetry:
        """Everything that is known now."""
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
        """Tokens per second over the last two seconds, or over the whole once no more come."""
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
        """A row came out of the tail, so every stage has computed it."""
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

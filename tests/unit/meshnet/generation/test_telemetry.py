"""Telemetry: phases go forward, rates are over two seconds, readers see changes in time."""

from __future__ import annotations

from meshnet.errors import RouteError
from meshnet.generation.telemetry_board import TelemetryBoard
from meshnet.generation.telemetry_pulse import TelemetryPulse
from meshnet.openai.telemetry import Failure, Phase, Residence, StageState
from tests.simulators.fake_route import stages_of


def board() -> TelemetryBoard:
    made = TelemetryBoard("id", 100.0)
    made.set_prompt(300)
    made.set_stages(stages_of(30, [1, 2]), 100.0)
    return made


def test_the_phase_only_moves_forward() -> None:
    made = board()
    for phase in (Phase.PREFILL, Phase.ROUTING, Phase.DECODE, Phase.PREFILL, Phase.DONE, Phase.DECODE):
        made.enter(phase, 101.0)
    assert made.phase is Phase.DONE


def test_prefill_never_goes_back_or_beyond_the_prompt() -> None:
    made = board()
    for done in (128, 64, 9999):
        made.advance_prefill(done, 101.0)
    assert made.snapshot(101.0).prefill_done == 300


def test_the_rate_is_that_of_the_last_two_seconds() -> None:
    made = board()
    for tick in range(40):
        made.count_token((), 101.0 + tick * 0.1)
    assert made.snapshot(104.9).tokens_per_s == 10.0


def test_a_burst_is_no_rate() -> None:
    made = board()
    for _ in range(5):
        made.count_token((), 101.0)
    assert made.snapshot(101.01).tokens_per_s == 0.0


def test_the_rate_falls_when_no_more_tokens_come() -> None:
    made = board()
    for tick in range(40):
        made.count_token((), 101.0 + tick * 0.1)
    assert made.snapshot(106.0).tokens_per_s < 10.0
    assert made.snapshot(110.0).tokens_per_s == 0.0
    assert made.snapshot(110.0).generated_tokens == 40


def test_after_the_end_the_rate_is_that_of_the_whole() -> None:
    made = board()
    for tick in range(11):
        made.count_token((), 101.0 + tick * 0.5)
    made.enter(Phase.DONE, 120.0)
    assert made.snapshot(120.0).tokens_per_s == 2.0
    assert made.first_token_ms == 1000


def test_stages_show_layers_residence_and_health() -> None:
    made = board()
    made.count_token(
        [(1, Residence(queue_us=1, compute_us=2, codec_us=3)), (9, Residence(queue_us=0, compute_us=0, codec_us=0))],
        101.0,
    )
    made.set_health(0, StageState.LATE, 101.5)
    shown = made.snapshot(102.0)
    assert [(stage.layer_begin, stage.layer_end) for stage in shown.stages] == [(0, 15), (15, 30)]
    assert [stage.residence is None for stage in shown.stages] == [True, False]
    assert [(health.state, health.last_seen_ms) for health in shown.route_health] == [
        (StageState.LATE, 1000),
        (StageState.OK, 1000),
    ]


def test_a_failure_names_its_stage() -> None:
    made = board()
    error = RouteError("stage_lost", "Stage lost", "m")
    error.stage = 1
    made.fail(error, 101.0)
    shown = made.snapshot(101.0)
    assert (shown.phase, shown.route_health[1].state) == (Phase.FAILED, StageState.LOST)
    assert shown.failure == Failure(code="stage_lost", stage=1, message="m")


def test_a_failure_of_no_stage_leaves_all_in_health() -> None:
    made = board()
    made.fail(RouteError("no_route", "No route", "m"), 101.0)
    shown = made.snapshot(101.0)
    assert shown.failure == Failure(code="no_route", stage=None, message="m")
    assert [health.state for health in shown.route_health] == [StageState.OK, StageState.OK]


def test_a_reader_sees_phases_at_once_changes_soon_and_silence_often() -> None:
    made, pulse = board(), TelemetryPulse()
    assert pulse.wait_s(made, 100.0) == 0
    pulse.show(made, 100.0)
    assert pulse.wait_s(made, 100.0) == 0.5
    made.advance_prefill(10, 100.0)
    assert round(pulse.wait_s(made, 100.05), 6) == 0.05
    made.enter(Phase.DECODE, 100.05)
    assert pulse.wait_s(made, 100.05) == 0

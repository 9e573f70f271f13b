from __future__ import annotations

import pytest

from node_app.worker.health import EngineActivity, HealthLimits, ProbeClock, is_stuck

LIMITS = HealthLimits(probe_interval_s=10.0, step_s=60.0)


def idle(steps: int) -> EngineActivity:
    return EngineActivity(steps=steps, is_computing=False, step_age_s=1.0)


def busy(steps: int, age_s: float = 1.0) -> EngineActivity:
    return EngineActivity(steps=steps, is_computing=True, step_age_s=age_s)


def test_an_idle_engine_is_probed_after_the_interval_and_again_after_the_next() -> None:
    clock = ProbeClock(LIMITS, now_s=0.0)
    clock.observe(idle(0), 1.0)
    assert not clock.is_due(idle(0), 10.9)
    assert clock.is_due(idle(0), 11.0)
    clock.prove(11.5)
    clock.observe(idle(0), 12.0)
    assert not clock.is_due(idle(0), 21.4)
    assert clock.is_due(idle(0), 21.5)


def test_real_steps_are_as_good_as_probes() -> None:
    clock = ProbeClock(LIMITS, now_s=0.0)
    for second in range(100):
        clock.observe(idle(second), float(second))
        assert not clock.is_due(idle(second), float(second))


def test_a_computing_engine_is_not_probed_but_may_be_stuck() -> None:
    clock = ProbeClock(LIMITS, now_s=0.0)
    clock.observe(busy(1), 0.0)
    assert not clock.is_due(busy(1), 100.0)


@pytest.mark.parametrize(("activity", "stuck"), [(busy(1, 60.0), False), (busy(1, 60.1), True), (idle(1), False)])
def test_one_step_that_does_not_end_is_a_stall(activity: EngineActivity, *, stuck: bool) -> None:
    assert is_stuck(activity, LIMITS) is stuck

"""The route machine: every state and input, and whatever order they come in."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.frame import Ack, Keepalive, SessionGone
from meshnet.generation.progress import PrefillAdvanced, StageHealthChanged
from meshnet.openai.telemetry import StageState
from tests.unit.tracker_site.routes.route_kit import (
    FAILURE,
    NO_ROUTE,
    PROGRESS,
    Driven,
    a_contract,
    a_plan,
    a_token,
    driven_to,
    from_stage,
)
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.transitions import TERMINAL, TRANSITIONS, InputKind, Reaction, RouteState

INPUTS: dict[InputKind, io.RouteInput] = {
    InputKind.PLANNED: io.Planned(a_plan()),
    InputKind.PLAN_FAILED: io.PlanFailed(NO_ROUTE),
    InputKind.RELAY_BOUND: io.RelayBound(1),
    InputKind.RELAY_FAILED: io.RelayFailed(1, "relay_unavailable", "the relay is gone"),
    InputKind.STAGE_OPENED: io.StageOpened(1, 0, a_contract(0)),
    InputKind.STAGE_REFUSED: io.StageRefused(1, 1, "kv_exhausted", "no cells"),
    InputKind.STAGE_GONE: io.StageGone(1, 1, "stage_lost", "gone"),
    InputKind.NODE_QUIET: io.NodeQuiet(1, 1),
    InputKind.ACK: from_stage(0, Ack(0)),
    InputKind.PROGRESS: from_stage(1, PROGRESS),
    InputKind.TOKEN: from_stage(1, a_token(1)),
    InputKind.SESSION_GONE: from_stage(1, SessionGone("unknown_session")),
    InputKind.FAILURE: from_stage(1, FAILURE),
    InputKind.OTHER_MESSAGE: from_stage(1, Keepalive()),
    InputKind.CANCEL: io.Cancelled("stop"),
}


def test_every_state_and_input_has_a_cell() -> None:
    assert set(TRANSITIONS) == set(product(RouteState, InputKind))
    assert all(TRANSITIONS[state, kind] is Reaction.IGNORE for state in TERMINAL for kind in InputKind)


@pytest.mark.parametrize(("state", "kind"), list(product(RouteState, InputKind)))
def test_each_cell_does_what_the_table_says(  # noqa: C901 - one case a step
    state: RouteState, kind: InputKind
) -> None:
    driven = driven_to(state)
    if kind is InputKind.TIMEOUT:
        driven.now_s += 3_600
        driven.machine.tick(driven.now_s)
        actions = driven.take()
    else:
        actions = driven.give(INPUTS[kind])
    events, machine = driven.machine.events(), driven.machine
    closes = [action for action in actions if isinstance(action, io.CloseAttempt)]
    match TRANSITIONS[state, kind]:
        case Reaction.IGNORE:
            assert (machine.state, actions, events) == (state, [], [])
        case Reaction.OPEN:
            assert (machine.state, [type(action) for action in actions]) == (RouteState.OPENING, [io.OpenAttempt])
        case Reaction.NOTE_BOUND | Reaction.NOTE_OPENED:
            assert (machine.state, actions) == (RouteState.OPENING, [])
        case Reaction.RETRY:
            assert machine.state is RouteState.PLANNING
            assert [type(action) for action in actions] == [io.CloseAttempt, io.PlanRoute]
        case Reaction.FEED:
            assert (machine.state, len(closes)) == (state, 0)
        case Reaction.ADVANCE:
            assert (machine.state, events) == (state, [PrefillAdvanced(128, 300)])
        case Reaction.TAKE_TOKEN:
            # In PREFILL the prompt has not all left, so that a token is a lie.
            assert machine.state is (RouteState.DECODE if state is RouteState.DECODE else RouteState.FAILED)
        case Reaction.NOTE_LATE:
            assert (machine.state, events) == (state, [StageHealthChanged(1, StageState.LATE)])
        case Reaction.FAIL | Reaction.GIVE_UP:
            assert machine.state is RouteState.FAILED
            assert machine.failure is not None
            assert len(closes) == (0 if state is RouteState.PLANNING else 1)
        case Reaction.CANCEL:
            assert machine.state is RouteState.CANCELLED
            assert len(closes) == (0 if state is RouteState.PLANNING else 1)
    assert (machine.next_deadline_s() is None) == (machine.state in TERMINAL)


STORIES = st.lists(st.sampled_from([*InputKind]), max_size=30)


@settings(max_examples=150)
@given(STORIES, st.lists(st.floats(0.0, 12.0), max_size=30))
def test_whatever_happens_every_attempt_is_closed_once_and_the_end_is_final(
    story: list[InputKind], pauses: list[float]
) -> None:
    driven = Driven()
    for number, kind in enumerate(story):
        if kind is InputKind.TIMEOUT:
            driven.wait(pauses[number] if number < len(pauses) else 1.0)
        else:
            driven.give(INPUTS[kind])
    driven.wait(600.0)
    assert driven.machine.is_over
    opened = [action.terms.key for action in driven.done if isinstance(action, io.OpenAttempt)]
    assert [close.terms.key for close in driven.closes] == opened
    assert opened == sorted(opened, key=lambda key: key.epoch)
    assert (driven.state() is RouteState.FAILED) == (driven.machine.failure is not None)
    assert driven.give(*INPUTS.values()) == []

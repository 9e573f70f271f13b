from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.frame import Ack, Frame, MessageError, fragment_frame
from meshnet.session import Delivered, Pending, ReceivingEdge, ReceivingState, Repeated, Stray, Window
from meshnet.session.transitions import TRANSITIONS, Action, Arrival
from tests.unit.meshnet.frame.frame_examples import prefill_frame

WINDOW = Window(frames=2, tensor_bytes=2000)
FRAME_BYTES = 96
# The frame that is in assembly, and the part of it that comes next.
PARTS = fragment_frame(prefill_frame(seq=1, rows=3, elements=100), 500)


def new_edge() -> ReceivingEdge:
    return ReceivingEdge(replace(prefill_frame(), epoch=2).address, WINDOW)


def own(frame: Frame) -> Frame:
    return replace(frame, epoch=2)


def edge_in(state: ReceivingState) -> ReceivingEdge:
    """An end that delivered frame 0 (and it was consumed), in `state`."""
    edge = new_edge()
    edge.receive(own(prefill_frame(seq=0)))
    edge.consume(0)
    if state is ReceivingState.ASSEMBLING:
        edge.receive(own(PARTS[0]))
    if state is ReceivingState.CLOSED:
        edge.close()
    assert edge.state is state
    return edge


def arrival(kind: Arrival, state: ReceivingState, edge: ReceivingEdge) -> Frame:
    """A frame of a kind, for an end in a state."""
    next_part = own(PARTS[1] if state is ReceivingState.ASSEMBLING else PARTS[0])
    if kind is Arrival.OVER_WINDOW:
        # The window is full of frames that the engine has not consumed.
        edge._unconsumed.extend([(-2, 1), (-1, 1)])
    frames = {
        Arrival.UNKNOWN_SESSION: replace(prefill_frame(seq=1), epoch=3),
        Arrival.OLD_EPOCH: replace(prefill_frame(seq=1), epoch=1),
        Arrival.FOREIGN_EDGE: own(replace(prefill_frame(seq=1), from_stage=5)),
        Arrival.REPEAT: own(prefill_frame(seq=0)),
        Arrival.GAP: own(prefill_frame(seq=2)),
        Arrival.TOO_LARGE: own(prefill_frame(seq=1, rows=3, elements=200)),
        Arrival.OVER_WINDOW: next_part if state is ReceivingState.ASSEMBLING else own(prefill_frame(seq=1)),
        Arrival.WHOLE: own(prefill_frame(seq=1)),
        Arrival.PART: next_part,
    }
    return frames[kind]


CELLS = [(state, kind) for state in ReceivingState for kind in Arrival]


@pytest.mark.parametrize(("state", "kind"), CELLS)
def test_every_state_and_arrival(state: ReceivingState, kind: Arrival) -> None:
    edge = edge_in(state)
    frame = arrival(kind, state, edge)
    cell = TRANSITIONS[state, kind]
    assert edge.classify(frame) is kind
    if cell.action in {Action.FAIL, Action.REFUSE}:
        with pytest.raises(MessageError) as refused:
            edge.receive(frame)
        assert refused.value.code == cell.code
        # Whoever uses another's edge is distrusted; the session whose edge it is goes on.
        assert edge.state is (ReceivingState.CLOSED if cell.action is Action.FAIL else state)
        return
    outcome = edge.receive(frame)
    expected = {
        Action.DELIVER: Delivered(frame),
        Action.KEEP: Pending(),
        Action.REPEAT: Repeated(Ack(0)),
        Action.STRAY: Stray(cell.code),
    }
    assert outcome == expected[cell.action]


def test_every_cell_is_there() -> None:
    assert set(TRANSITIONS) == set(CELLS)
    print(json.dumps({"cells": len(CELLS)}))
    assert len(CELLS) == 27


def test_a_repeat_is_counted_and_never_delivered_again() -> None:
    edge = new_edge()
    edge.receive(own(prefill_frame(seq=0)))
    assert edge.receive(own(prefill_frame(seq=0))) == Repeated(None)
    edge.consume(0)
    assert edge.receive(own(prefill_frame(seq=0))) == Repeated(Ack(0))
    assert edge.repeated_frames == 2


def test_a_repeated_part_is_dropped() -> None:
    edge = edge_in(ReceivingState.ASSEMBLING)
    assert edge.receive(own(PARTS[0])) == Repeated(Ack(0))
    assert edge.receive(own(PARTS[1])) == Pending()
    outcome = edge.receive(own(PARTS[2]))
    assert isinstance(outcome, Delivered)
    assert outcome.frame == own(prefill_frame(seq=1, rows=3, elements=100))


def test_a_missing_part_is_a_gap() -> None:
    edge = edge_in(ReceivingState.ASSEMBLING)
    with pytest.raises(MessageError) as refused:
        edge.receive(own(PARTS[2]))
    assert refused.value.code == "sequence_gap"


def test_contradicting_parts_fail_the_session() -> None:
    edge = edge_in(ReceivingState.ASSEMBLING)
    with pytest.raises(MessageError) as refused:
        edge.receive(own(replace(PARTS[1], position=9)))
    assert refused.value.code == "malformed"
    assert edge.state is ReceivingState.CLOSED


def test_consuming_frees_the_window() -> None:
    edge = new_edge()
    edge.receive(own(prefill_frame(seq=0)))
    edge.receive(own(prefill_frame(seq=1)))
    assert edge.held_bytes == 2 * FRAME_BYTES
    assert edge.consume(1) == Ack(1)
    assert edge.held_bytes == 0
    assert isinstance(edge.receive(own(prefill_frame(seq=2))), Delivered)


def test_consuming_again_gives_the_same_ack() -> None:
    edge = edge_in(ReceivingState.EXPECTING)
    assert edge.consume(0) == Ack(0)


def test_consuming_what_was_never_delivered_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="never delivered"):
        new_edge().consume(0)


def test_a_closed_end_holds_and_acknowledges_nothing() -> None:
    edge = edge_in(ReceivingState.ASSEMBLING)
    edge.close()
    edge.close()
    assert edge.held_bytes == 0
    assert edge.consume(0) is None


@given(st.lists(st.integers(0, 6), max_size=30))
def test_whatever_arrives_is_delivered_in_order_and_once(numbers: list[int]) -> None:
    edge = new_edge()
    delivered: list[int] = []
    for seq in numbers:
        try:
            outcome = edge.receive(own(prefill_frame(seq=seq)))
        except MessageError:
            break
        if isinstance(outcome, Delivered):
            delivered.append(outcome.frame.seq)
            edge.consume(outcome.frame.seq)
    assert delivered == list(range(len(delivered)))

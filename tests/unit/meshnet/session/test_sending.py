from __future__ import annotations

import pytest

from meshnet.frame import Ack, MessageError
from meshnet.session import SendingEdge, Window


def test_numbers_are_consecutive_from_zero() -> None:
    edge = SendingEdge(Window(3, 100))
    assert [edge.send(), edge.send(10), edge.send()] == [0, 1, 2]
    assert edge.in_flight_frames == 3


def test_the_window_is_in_frames_and_in_bytes() -> None:
    edge = SendingEdge(Window(2, 100))
    edge.send(60)
    assert edge.has_credit(40)
    assert not edge.has_credit(41)
    edge.send(40)
    assert not edge.has_credit(0)


def test_sending_without_credit_is_an_error_of_the_caller() -> None:
    edge = SendingEdge(Window(1, 100))
    edge.send(1)
    with pytest.raises(ValueError, match="no credit"):
        edge.send(1)


def test_a_frame_larger_than_the_window_never_waits_for_credit() -> None:
    with pytest.raises(ValueError, match="over a window"):
        SendingEdge(Window(1, 100)).has_credit(101)


def test_an_ack_frees_everything_up_to_it() -> None:
    edge = SendingEdge(Window(4, 100))
    for size_bytes in (10, 20, 30):
        edge.send(size_bytes)
    assert edge.acknowledge(Ack(1)) == 2
    assert edge.in_flight_frames == 1
    assert edge.has_credit(70)
    assert not edge.has_credit(71)


def test_a_repeated_ack_frees_nothing() -> None:
    edge = SendingEdge(Window(4, 100))
    edge.send(10)
    assert [edge.acknowledge(Ack(0)), edge.acknowledge(Ack(0))] == [1, 0]


def test_an_ack_of_what_was_never_sent_is_refused() -> None:
    edge = SendingEdge(Window(4, 100))
    edge.send(10)
    with pytest.raises(MessageError) as refused:
        edge.acknowledge(Ack(1))
    assert refused.value.code == "malformed"


def test_a_closed_end_sends_nothing_and_ignores_late_acks() -> None:
    edge = SendingEdge(Window(4, 100))
    edge.send(10)
    edge.close()
    edge.close()
    assert not edge.has_credit()
    assert edge.acknowledge(Ack(7)) == 0
    assert edge.in_flight_frames == 0

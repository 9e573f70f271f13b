from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.frame import Fragment, Frame, FrameAssembler, MessageError, fragment_frame, parse_frame, serialise_frame
from tests.unit.meshnet.frame.frame_examples import decode_frame, prefill_frame, rows_of


def assembled(parts: list[Frame]) -> Frame | None:
    assembler = FrameAssembler()
    whole = None
    for part in parts:
        assert whole is None
        whole = assembler.add(parse_frame(serialise_frame(part)))
    return whole


@given(st.integers(1, 40), st.integers(1, 200), st.integers(300, 4000))
def test_parts_fit_the_limit_and_give_the_frame_back(rows: int, elements: int, limit_bytes: int) -> None:
    frame = prefill_frame(rows=rows, elements=elements)
    parts = fragment_frame(frame, limit_bytes)
    assert max(len(serialise_frame(part)) for part in parts) <= limit_bytes
    assert (parts[0] if len(parts) == 1 else assembled(parts)) == frame


def test_a_large_chunk_travels_in_messages_of_the_usual_limit() -> None:
    frame = prefill_frame(rows=128, elements=16384)
    parts = fragment_frame(frame)
    assert len(parts) == 17
    assert max(len(serialise_frame(part)) for part in parts) < 512 * 1024
    assert (parts[0] if len(parts) == 1 else assembled(parts)) == frame


def test_a_frame_that_fits_is_not_cut() -> None:
    assert fragment_frame(decode_frame()) == [decode_frame()]


@pytest.mark.parametrize("limit_bytes", [0, 64])
def test_a_limit_that_leaves_no_room_is_an_error_of_the_caller(limit_bytes: int) -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        fragment_frame(prefill_frame(rows=100), limit_bytes)


def test_several_tensors_cannot_be_cut() -> None:
    two = (rows_of(3, 200), replace(rows_of(3, 200), name="other"))
    with pytest.raises(ValueError, match="2 tensors"):
        fragment_frame(replace(prefill_frame(rows=3), tensors=two), 1000)


def parts_of_three() -> list[Frame]:
    parts = fragment_frame(prefill_frame(rows=3, elements=100), 500)
    assert len(parts) == 3
    return parts


@pytest.mark.parametrize(
    ("order", "code"),
    [([1], "sequence_gap"), ([0, 2], "sequence_gap"), ([0, 0], "sequence_gap"), ([0, 1, 1], "sequence_gap")],
)
def test_parts_out_of_order_are_refused(order: list[int], code: str) -> None:
    assembler, parts = FrameAssembler(), parts_of_three()
    *sound, wrong = order
    for index in sound:
        assembler.add(parts[index])
    with pytest.raises(MessageError) as refused:
        assembler.add(parts[wrong])
    assert refused.value.code == code


def test_a_whole_frame_is_no_part() -> None:
    with pytest.raises(MessageError):
        FrameAssembler().add(prefill_frame())


def test_parts_that_differ_in_their_header_are_refused() -> None:
    first, second, _ = parts_of_three()
    assembler = FrameAssembler()
    assembler.add(first)
    with pytest.raises(MessageError, match="header"):
        assembler.add(replace(second, position=second.position + 1))


def test_parts_that_leave_a_hole_are_refused() -> None:
    first, second, _ = parts_of_three()
    assert second.fragment is not None
    assembler = FrameAssembler()
    assembler.add(first)
    shifted = replace(second.fragment, offset_bytes=second.fragment.offset_bytes + 4)
    with pytest.raises(MessageError, match="begin"):
        assembler.add(replace(second, fragment=shifted))


def test_parts_that_claim_another_total_are_refused() -> None:
    first, second, _ = parts_of_three()
    assert second.fragment is not None
    assembler = FrameAssembler()
    assembler.add(first)
    other = Fragment(second.fragment.index, 4, second.fragment.offset_bytes, second.fragment.total_bytes)
    with pytest.raises(MessageError, match="header"):
        assembler.add(replace(second, fragment=other))


def test_what_is_held_is_known_and_dropped() -> None:
    assembler = FrameAssembler()
    first = parts_of_three()[0]
    assembler.add(first)
    assert (assembler.seq, assembler.held_bytes) == (0, first.data_bytes)
    assembler.clear()
    assert (assembler.seq, assembler.held_bytes) == (None, 0)

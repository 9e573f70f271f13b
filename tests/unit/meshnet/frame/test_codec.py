from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.frame import (
    Ack,
    Close,
    Codec,
    DType,
    EdgeMessage,
    FinishReason,
    Frame,
    Keepalive,
    MessageError,
    Phase,
    PrefillProgress,
    SessionGone,
    StageFailure,
    StageResidence,
    Tensor,
    TokenEvent,
    TokenLogprob,
    parse_edge_message,
    parse_frame,
    serialise_edge_message,
    serialise_frame,
)
from tests.unit.meshnet.frame.frame_examples import SESSION, decode_frame, prefill_frame

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
TOKENS = st.integers(0, 2**31 - 1)
EPOCHS = st.integers(1, 2**32 - 1)
STAGES = st.integers(0, 63)
F32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
RESIDENCE = st.lists(
    st.builds(StageResidence, STAGES, U32, U32, U32), max_size=4, unique_by=lambda entry: entry.stage
).map(tuple)


@st.composite
def tensors(draw: st.DrawFn, rows: int) -> Tensor:
    codec = draw(st.sampled_from(Codec))
    dtype = DType.F32 if codec is not Codec.RAW else draw(st.sampled_from(DType))
    elements = 32 * draw(st.integers(1, 2)) if codec is Codec.Q8_0 else draw(st.integers(1, 9))
    name = draw(st.text(min_size=1, max_size=12))
    empty = Tensor(name, dtype, (rows, elements), codec, b"")
    return replace(empty, data=draw(st.binary(min_size=empty.packed_bytes, max_size=empty.packed_bytes)))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    phase = draw(st.sampled_from(Phase))
    rows = 1 if phase is Phase.DECODE else draw(st.integers(1, 4))
    from_stage, to_stage = draw(st.lists(STAGES, min_size=2, max_size=2, unique=True))
    return Frame(
        session=draw(st.binary(min_size=16, max_size=16)),
        epoch=draw(EPOCHS),
        from_stage=draw(st.sampled_from([from_stage, 127])),
        to_stage=to_stage,
        seq=draw(U64),
        phase=phase,
        position=draw(st.integers(0, 2**31 - 10)),
        rows=rows,
        rewind=draw(st.booleans()),
        prompt_end=phase is Phase.PREFILL and draw(st.booleans()),
        token_ids=draw(st.one_of(st.just([]), st.lists(TOKENS, min_size=rows, max_size=rows)).map(tuple)),
        tensors=tuple(draw(st.lists(tensors(rows), max_size=2, unique_by=lambda tensor: tensor.name))),
        logits_rows=draw(st.sets(st.integers(0, rows - 1)).map(lambda wanted: tuple(sorted(wanted)))),
        budget_ms=draw(U32),
        residence=draw(RESIDENCE),
    )


LOGPROBS = st.builds(TokenLogprob, TOKENS, F32)
BODIES = st.one_of(
    st.builds(Ack, U64),
    st.builds(
        TokenEvent,
        TOKENS,
        TOKENS,
        TOKENS,
        st.none() | st.sampled_from(FinishReason),
        U32,
        st.none() | F32,
        st.lists(LOGPROBS, max_size=20).map(tuple),
        RESIDENCE,
    ),
    st.builds(PrefillProgress, TOKENS, RESIDENCE),
    st.builds(SessionGone, st.text(max_size=100)),
    st.builds(StageFailure, st.from_regex(r"[a-z_]{1,20}", fullmatch=True), st.text(max_size=100), STAGES),
    st.builds(Close, st.text(max_size=100)),
    st.just(Keepalive()),
)


@given(frames())
def test_frame_survives_the_wire(frame: Frame) -> None:
    assert parse_frame(serialise_frame(frame)) == frame


@given(BODIES, EPOCHS)
def test_edge_message_survives_the_wire(body: Ack, epoch: int) -> None:
    message = EdgeMessage(SESSION, epoch, 1, 127, body)
    assert parse_edge_message(serialise_edge_message(message)) == message


def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Some bytes overwritten, inserted or removed."""
    result = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(result) - 1)))
        match draw(st.sampled_from(["overwrite", "insert", "remove"])):
            case "overwrite" if result:
                result[at] = draw(st.integers(0, 255))
            case "insert":
                result[at:at] = draw(st.binary(max_size=4))
            case _:
                del result[at : at + draw(st.integers(1, 8))]
    return bytes(result)


@st.composite
def mutated_frames(draw: st.DrawFn) -> bytes:
    return mutated(draw, serialise_frame(draw(frames())))


@st.composite
def mutated_edge_messages(draw: st.DrawFn) -> bytes:
    return mutated(draw, serialise_edge_message(EdgeMessage(SESSION, 1, 1, 127, draw(BODIES))))


@settings(max_examples=300)
@given(mutated_frames() | st.binary(max_size=80))
def test_whatever_the_bytes_a_frame_is_refused_or_sound(data: bytes) -> None:
    try:
        frame = parse_frame(data)
    except MessageError:
        return
    # What was let through obeys the rules, so it survives a second reading.
    assert parse_frame(serialise_frame(frame)) == frame


@settings(max_examples=300)
@given(mutated_edge_messages() | st.binary(max_size=80))
def test_whatever_the_bytes_an_edge_message_is_refused_or_sound(data: bytes) -> None:
    try:
        message = parse_edge_message(data)
    except MessageError:
        return
    assert parse_edge_message(serialise_edge_message(message)) == message


@pytest.mark.parametrize("stages", [2, 15, 64])
@pytest.mark.parametrize("position", [10, 2000, 2**31 - 2])
def test_a_decode_frame_costs_little_beside_its_rows(stages: int, position: int) -> None:
    """Source: docs/wire.md, Frames: at most 160 + 24 x stages bytes of everything else, at any position."""
    residence = tuple(StageResidence(stage, 200_000, 2_000_000, 100_000) for stage in range(stages))
    frame = replace(
        decode_frame(seq=position, position=position), residence=residence, budget_ms=60_000, logits_rows=(0,)
    )
    assert len(serialise_frame(frame)) - frame.data_bytes <= 160 + 24 * stages


def test_text_for_people_is_cut_by_the_sender() -> None:
    message = EdgeMessage(SESSION, 1, 0, 127, StageFailure("stage_lost", "é" * 1000, 0))
    read = parse_edge_message(serialise_edge_message(message))
    assert isinstance(read.body, StageFailure)
    assert len(read.body.message.encode()) == 512


@pytest.mark.parametrize(
    ("change", "closes"),
    [({"epoch": 0}, True), ({"position": 2**31 - 1}, False), ({"session": b"short"}, True), ({"rows": 9000}, False)],
)
def test_only_a_frame_without_an_address_closes_the_connection(change: dict[str, object], closes: bool) -> None:
    with pytest.raises(MessageError) as refused:
        parse_frame(serialise_frame(replace(prefill_frame(), **change)))
    assert refused.value.closes_connection is closes

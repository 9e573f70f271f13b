"""Rules of the FakeEngine that the shared vectors do not show; the vectors are in tests/contract."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulators.fake_engine import (
    END_TOKEN_ID,
    MODULUS,
    FakeSequence,
    FakeShard,
    logits_of,
    pack_rows,
    unpack_rows,
)

TOKENS = st.lists(st.integers(0, 259), min_size=1, max_size=12)


@given(TOKENS, st.integers(1, 5), st.integers(4, 9))
def test_any_cut_and_any_chunking_give_the_same_rows(tokens: list[int], cut: int, width: int) -> None:
    whole = FakeSequence(FakeShard(6, width, 0, 6)).step_tokens(tokens)
    head = FakeSequence(FakeShard(6, width, 0, cut))
    tail = FakeSequence(FakeShard(6, width, cut, 6))
    one_by_one = [tail.step_rows(head.step_tokens([token]))[0] for token in tokens]
    assert one_by_one == whole


@given(TOKENS, TOKENS, st.integers(0, 12))
def test_a_truncated_sequence_forgets(tokens: list[int], again: list[int], length: int) -> None:
    kept = tokens[: min(length, len(tokens))]
    sequence = FakeSequence(FakeShard(3, 4, 0, 3))
    sequence.step_tokens(tokens)
    sequence.truncate(len(kept))
    fresh = FakeSequence(FakeShard(3, 4, 0, 3))
    fresh.step_tokens(kept)
    assert sequence.step_tokens(again) == fresh.step_tokens(again)


@given(st.lists(st.integers(0, 259), min_size=2, max_size=12, unique=True))
def test_rows_depend_on_every_token_before(tokens: list[int]) -> None:
    """The control of parity: a changed history shows."""
    changed = [(tokens[0] + 1) % 260, *tokens[1:]]
    shard = FakeShard(3, 4, 0, 3)
    assert FakeSequence(shard).step_tokens(tokens)[-1] != FakeSequence(shard).step_tokens(changed)[-1]


@given(st.lists(st.integers(0, MODULUS - 1), min_size=4, max_size=20).map(tuple))
def test_arg_max_is_readable_or_the_end(row: tuple[int, ...]) -> None:
    logits = logits_of(row)
    best = logits.index(max(logits))
    assert best in range(32, 127) or (best == END_TOKEN_ID and row[0] % 61 == 7)
    assert [struct.unpack("<f", struct.pack("<f", value))[0] for value in logits] == logits


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 65537.0])
def test_rows_that_no_layer_gives_are_refused(value: float) -> None:
    data = struct.pack("<4f", 1.0, 2.0, value, 4.0)
    with pytest.raises(ValueError, match="no fake layer"):
        unpack_rows(data, 4)
    assert unpack_rows(pack_rows([(1, 2, 3, 4)]), 4) == [(1, 2, 3, 4)]


def test_bytes_that_are_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="no rows"):
        unpack_rows(bytes(15), 4)


@pytest.mark.parametrize("shape", [(4, 16, 0, 5), (4, 16, 2, 2), (4, 16, 3, 2), (4, 3, 0, 4), (4, 16, -1, 2)])
def test_no_such_shard(shape: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="no such shard"):
        FakeShard(*shape)


@pytest.mark.parametrize("length", [-1, 3])
def test_no_such_truncation(length: int) -> None:
    sequence = FakeSequence(FakeShard(1, 4, 0, 1))
    sequence.step_tokens([1, 2])
    with pytest.raises(ValueError, match="cannot truncate"):
        sequence.truncate(length)

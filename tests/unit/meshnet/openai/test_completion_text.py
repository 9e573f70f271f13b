"""Tokens to text: exact for every split of the bytes, with each token beside its own text."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from meshnet.openai.completion_text import CompletionText
from meshnet.openai.events import GeneratedToken, PlacedToken
from meshnet.openai.utf8 import Utf8Decoder

TEXTS = st.text(alphabet="ab é漢🙂\n", max_size=20)
STOPS = st.lists(st.text(alphabet="ab é漢🙂", min_size=1, max_size=3), max_size=3).map(tuple)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges)]


def run(pieces: list[bytes], stops: tuple[str, ...]) -> tuple[str, list[PlacedToken], CompletionText]:
    text = CompletionText(stops, with_tokens=True)
    deltas = [text.push(GeneratedToken(index, piece, -1.0)) for index, piece in enumerate(pieces)]
    deltas.append(text.finish())
    return "".join(delta.text for delta in deltas), [token for delta in deltas for token in delta.tokens], text


@given(data=st.binary(max_size=40), cuts=st.lists(st.integers(min_value=0), max_size=10))
def test_decoding_in_pieces_equals_decoding_at_once(data: bytes, cuts: list[int]) -> None:
    decoder = Utf8Decoder()
    text = "".join(decoder.push(piece) for piece in split(data, cuts)) + decoder.finish()
    assert text == data.decode("utf-8", errors="replace")


@given(text=TEXTS, stops=STOPS, cuts=st.lists(st.integers(min_value=0), max_size=10))
def test_text_does_not_depend_on_the_tokens(text: str, stops: tuple[str, ...], cuts: list[int]) -> None:
    data = text.encode()
    whole, _tokens, _state = run([data], stops)
    assert run(split(data, cuts), stops)[0] == whole


@given(text=TEXTS, cuts=st.lists(st.integers(min_value=0), max_size=10))
def test_without_a_stop_every_token_is_released_once_and_in_order(text: str, cuts: list[int]) -> None:
    pieces = split(text.encode(), cuts)
    _text, tokens, _state = run(pieces, ())
    assert [placed.token.token_id for placed in tokens] == list(range(len(pieces)))
    assert b"".join(placed.token.piece for placed in tokens) == text.encode()


@given(text=TEXTS, stops=STOPS, cuts=st.lists(st.integers(min_value=0), max_size=10))
def test_no_token_behind_a_stop_is_released(text: str, stops: tuple[str, ...], cuts: list[int]) -> None:
    released, tokens, state = run(split(text.encode(), cuts), stops)
    if state.is_stopped:
        assert all(placed.text_offset < len(released) for placed in tokens if placed.token.piece)


def test_a_token_held_for_a_stop_string_comes_with_its_text() -> None:
    text = CompletionText(("stop!",), with_tokens=True)
    first = text.push(GeneratedToken(1, b"go st", -0.5))
    assert (first.text, first.tokens) == ("go ", ())
    second = text.push(GeneratedToken(2, b"reet", -0.5))
    assert second.text == "street"
    assert [(placed.token.token_id, placed.text_offset) for placed in second.tokens] == [(1, 0), (2, 5)]


def test_an_emoji_over_four_tokens_appears_whole() -> None:
    text = CompletionText((), with_tokens=False)
    deltas = [text.push(GeneratedToken(index, bytes([byte]))) for index, byte in enumerate("🙂".encode())]
    assert [delta.text for delta in deltas] == ["", "", "", "🙂"]


def test_half_a_character_at_the_end_is_replaced() -> None:
    text = CompletionText((), with_tokens=False)
    assert text.push(GeneratedToken(0, b"a\xe6")).text == "a"
    assert text.finish().text == "\ufffd"

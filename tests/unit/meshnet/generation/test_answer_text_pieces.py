"""Tokens to text: exact for every split of the bytes, with each token beside its own text."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from meshnet.generation.answer_text import AnswerText
from meshnet.generation.progress import TokenReceived
from meshnet.openai.events import PlacedToken
from meshnet.openai.utf8 import Utf8Decoder
from meshnet.vocab import ByteVocabulary

TEXTS = st.text(alphabet="ab é漢🙂\n", max_size=20)
STOPS = st.lists(st.text(alphabet="ab é漢🙂", min_size=1, max_size=3), max_size=3).map(tuple)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges)]


class Pieces(ByteVocabulary):
    """A vocabulary whose token `i` has the bytes of the i-th piece."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(512)
        self._pieces = pieces

    def piece(self, token_id: int) -> bytes:
        return self._pieces[token_id]


def an_answer(pieces: list[bytes], *stops: str, with_tokens: bool = False) -> AnswerText:
    return AnswerText(Pieces(pieces), stops, with_tokens=with_tokens)


def run(pieces: list[bytes], stops: tuple[str, ...]) -> tuple[str, list[PlacedToken], AnswerText]:
    text = an_answer(pieces, *stops, with_tokens=True)
    deltas = [text.take(TokenReceived(index, index, logprob=-1.0))[0] for index in range(len(pieces))]
    deltas.append(text.rest())
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
    text = an_answer([b"go st", b"reet"], "stop!", with_tokens=True)
    first, _ = text.take(TokenReceived(0, 0, logprob=-0.5))
    assert (first.text, first.tokens) == ("go ", ())
    second, _ = text.take(TokenReceived(1, 1, logprob=-0.5))
    assert second.text == "street"
    assert [(placed.token.token_id, placed.text_offset) for placed in second.tokens] == [(0, 0), (1, 5)]


def test_an_emoji_over_four_tokens_appears_whole() -> None:
    pieces = [bytes([byte]) for byte in "🙂".encode()]
    text = an_answer(pieces)
    deltas = [text.take(TokenReceived(index, index))[0] for index in range(len(pieces))]
    assert [delta.text for delta in deltas] == ["", "", "", "🙂"]


def test_half_a_character_at_the_end_is_replaced() -> None:
    text = an_answer([b"a\xe6"])
    assert text.take(TokenReceived(0, 0))[0].text == "a"
    assert text.rest().text == "\ufffd"

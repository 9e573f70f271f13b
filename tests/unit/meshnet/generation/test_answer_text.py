"""From tokens to text: what is certain comes at once, what is not is held back, and nothing comes after the end."""

from __future__ import annotations

from meshnet.generation.answer_text import AnswerText
from meshnet.generation.progress import TokenReceived
from meshnet.openai.events import FinishReason
from meshnet.vocab import ByteVocabulary

END = 257


def an_answer(*stops: str, with_tokens: bool = False) -> AnswerText:
    return AnswerText(ByteVocabulary(512), stops, with_tokens=with_tokens)


def test_text_is_given_as_it_becomes_certain() -> None:
    answer = an_answer("xyz")
    texts = [answer.take(TokenReceived(index, byte))[0].text for index, byte in enumerate("é".encode() + b"axb")]
    assert texts == ["", "é", "a", "", "xb"]
    assert answer.rest().text == ""


def test_a_stop_string_ends_the_text_before_it() -> None:
    answer = an_answer("bc")
    taken = [answer.take(TokenReceived(index, byte)) for index, byte in enumerate(b"abc")]
    assert "".join(delta.text for delta, _ in taken) == "a"
    assert [finish for _, finish in taken] == [None, None, FinishReason.STOP]
    assert (answer.is_stopped, answer.rest().text, answer.tokens) == (True, "", 3)


def test_the_end_token_has_no_text_and_what_was_held_back_comes_with_it() -> None:
    answer = an_answer("ab", with_tokens=True)
    answer.take(TokenReceived(0, 97, logprob=-0.5))
    delta, finish = answer.take(TokenReceived(1, END, finish=FinishReason.STOP))
    rest = answer.rest()
    assert (delta.text, finish, rest.text) == ("", FinishReason.STOP, "a")
    assert [placed.token.token_id for placed in rest.tokens] == [97]

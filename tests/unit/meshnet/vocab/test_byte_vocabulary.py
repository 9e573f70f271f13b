"""The byte vocabulary, and with it the rules that hold for every vocabulary."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.openai.specification import ChatMessage, Role
from meshnet.vocab import PROMPT_BYTES_MAX, ByteVocabulary, RenderContext, Vocabulary, VocabularyError, open_vocabulary
from meshnet.vocab.byte_vocabulary import CONTROL_TOKENS

CONTEXT = RenderContext(now=datetime(2031, 2, 3, tzinfo=UTC), nonce="n0nce")
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WITH_SPELLINGS = st.lists(st.sampled_from([*CONTROL_TOKENS, "a", " ", "é", "<", "|", ">"]), max_size=8).map("".join)


def vocabulary() -> Vocabulary:
    return open_vocabulary(Path("unused"), architecture="fake", context_length=128)


def user(content: str) -> list[ChatMessage]:
    return [ChatMessage(Role.USER, content)]


def decode(vocabulary: Vocabulary, token_ids: list[int]) -> str:
    decoder = vocabulary.decoder()
    return "".join(map(decoder.push, token_ids)) + decoder.finish()


def test_facts() -> None:
    assert (vocabulary().size, vocabulary().context_length, vocabulary().end_tokens) == (260, 128, (257,))


@given(text=ANY_TEXT)
def test_text_goes_round(text: str) -> None:
    token_ids = vocabulary().tokenise_text(text)
    assert token_ids[0] == 256
    assert decode(vocabulary(), token_ids) == text


@given(text=WITH_SPELLINGS)
def test_user_text_never_yields_control_tokens(text: str) -> None:
    assert all(token_id < 256 for token_id in vocabulary().tokenise_text(text)[1:])
    assert vocabulary().tokenise_chat(user(text), CONTEXT) == [256, 258, *text.encode(), 259]


def test_the_template_does_yield_control_tokens() -> None:
    messages = [ChatMessage(Role.USER, "a"), ChatMessage(Role.ASSISTANT, "b"), ChatMessage(Role.USER, "c")]
    assert vocabulary().tokenise_chat(messages, CONTEXT) == [256, 258, 97, 259, 98, 258, 99, 259]


def test_the_first_token_stands_once_even_if_the_template_writes_it() -> None:
    own = ByteVocabulary(128, chat_template="{{ bos_token }}{{ messages[0].content }}")
    assert own.tokenise_chat(user("a"), CONTEXT) == [256, 97]


def test_a_guessed_sentinel_is_only_text() -> None:
    content = "meshnetn0ncen0e"
    other = RenderContext(now=CONTEXT.now, nonce="another")
    assert decode(vocabulary(), vocabulary().tokenise_chat(user(content), other)) == content


@pytest.mark.parametrize("token_id", [-1, 260, 2**31])
def test_an_id_out_of_the_vocabulary_is_refused(token_id: int) -> None:
    with pytest.raises(VocabularyError) as caught:
        vocabulary().piece(token_id)
    assert caught.value.code == "bad_token_id"


def test_too_much_text_is_refused_before_it_is_tokenised() -> None:
    with pytest.raises(VocabularyError) as caught:
        vocabulary().tokenise_text("é" * (PROMPT_BYTES_MAX // 2 + 1))
    assert caught.value.code == "prompt_too_large"
    with pytest.raises(VocabularyError):
        vocabulary().tokenise_chat(user("x" * (PROMPT_BYTES_MAX // 2)) * 3, CONTEXT)


def test_a_template_that_multiplies_text_is_refused() -> None:
    own = ByteVocabulary(128, chat_template="{% for i in range(1000) %}{{ messages[0].content }}{% endfor %}")
    with pytest.raises(VocabularyError) as caught:
        own.tokenise_chat(user("x" * 10_000), CONTEXT)
    assert caught.value.code == "prompt_too_large"

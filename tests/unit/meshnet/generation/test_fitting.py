"""What fits a model, and what each misfit is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from meshnet.generation.fitting import CHAT_TOKENS_DEFAULT, fit_request
from meshnet.openai.errors import RequestError
from meshnet.openai.specification import (
    ChatMessage,
    ChatPrompt,
    DeliverySpec,
    Face,
    GenerationSpec,
    Role,
    SamplingSpec,
    TokenPrompt,
)
from meshnet.vocab import ByteVocabulary

CONTEXT_LENGTH = 4096
VOCABULARY = ByteVocabulary(CONTEXT_LENGTH)
CHAT = GenerationSpec(
    face=Face.CHAT,
    model="m",
    prompt=ChatPrompt((ChatMessage(Role.USER, "hi"),)),
    sampling=SamplingSpec(),
    max_tokens=None,
    stop=(),
    delivery=DeliverySpec(),
)


@pytest.mark.parametrize(
    ("changes", "prompt_tokens", "max_tokens"),
    [
        ({}, 10, CHAT_TOKENS_DEFAULT),
        ({}, CONTEXT_LENGTH - 1, 1),
        ({"max_tokens": 7}, 10, 7),
        ({"max_tokens": CONTEXT_LENGTH - 10}, 10, CONTEXT_LENGTH - 10),
        ({"face": Face.COMPLETION}, 10, 16),
    ],
)
def test_what_is_generated_at_most(changes: dict[str, Any], prompt_tokens: int, max_tokens: int) -> None:
    fitted = fit_request(replace(CHAT, **changes), VOCABULARY, (1,) * prompt_tokens, 5)
    assert fitted.max_tokens == max_tokens


@pytest.mark.parametrize(
    ("changes", "prompt", "code", "param"),
    [
        ({}, (), "invalid_value", "prompt"),
        ({}, (1,) * CONTEXT_LENGTH, "context_length_exceeded", "messages"),
        ({"face": Face.COMPLETION}, (1,) * CONTEXT_LENGTH, "context_length_exceeded", "prompt"),
        ({"max_tokens": CONTEXT_LENGTH}, (1,), "context_length_exceeded", "max_tokens"),
        ({"prompt": TokenPrompt((260,))}, (260,), "bad_token_id", "prompt"),
        ({"sampling": SamplingSpec(logit_bias=((260, 1.0),))}, (1,), "bad_token_id", "logit_bias"),
    ],
)
def test_what_does_not_fit(changes: dict[str, Any], prompt: tuple[int, ...], code: str, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        fit_request(replace(CHAT, **changes), VOCABULARY, prompt, 5)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


def test_a_seed_is_drawn_only_where_none_was_given() -> None:
    given = replace(CHAT, sampling=SamplingSpec(seed=0))
    assert fit_request(given, VOCABULARY, (1,), 5).sampling.seed == 0
    assert fit_request(CHAT, VOCABULARY, (1,), 5).sampling.seed == 5


def test_the_prompt_is_not_in_the_representation() -> None:
    assert "prompt_tokens" not in repr(fit_request(CHAT, VOCABULARY, (77, 78), 5))

"""The vocabulary of the FakeEngine: 256 bytes and four control tokens. Source: docs/wire.md, FakeEngine."""

from __future__ import annotations

import re
from typing import Final

from meshnet.failure_codes import FailureCode
from meshnet.vocab.chat_template import ChatTemplate
from meshnet.vocab.vocabulary import Traits, Vocabulary, VocabularyError

BOS_TOKEN: Final = 256
END_TOKEN: Final = 257
CONTROL_TOKENS: Final = {"<s>": BOS_TOKEN, "</s>": END_TOKEN, "<|user|>": 258, "<|assistant|>": 259}
SIZE: Final = 260
CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|assistant|>' if message.role == 'assistant' else '<|user|>' }}{{ message.content }}"
    "{% endfor %}<|assistant|>"
)

_CONTROL_PATTERN: Final = re.compile("(" + "|".join(map(re.escape, CONTROL_TOKENS)) + ")")


class ByteVocabulary(Vocabulary):
    """A vocabulary of 256 bytes and four control tokens, which needs no model file and no library."""

    def __init__(self, context_length: int, *, chat_template: str | None = None) -> None:
        super().__init__(
            Traits(size=SIZE, context_length=context_length, end_tokens=(END_TOKEN,), bos_token=BOS_TOKEN),
            template=ChatTemplate(chat_template or CHAT_TEMPLATE, bos_token="<s>", eos_token="</s>"),  # noqa: S106
            control_spellings=CONTROL_TOKENS,
        )

    def piece(self, token_id: int) -> bytes:
        """Return the one byte of a token, or no bytes if it is a control token."""
        if not 0 <= token_id < SIZE:
            raise VocabularyError(FailureCode.BAD_TOKEN_ID, "Bad token id", f"{token_id} is not one of {SIZE} tokens.")
        return bytes([token_id]) if token_id < BOS_TOKEN else b""

    def _tokenise(self, text: str, *, parse_special: bool, continues: bool) -> list[int]:
        parts = _CONTROL_PATTERN.split(text) if parse_special else [text]
        return [
            token_id
            for index, part in enumerate(parts)
            for token_id in ([CONTROL_TOKENS[part]] if index % 2 else part.encode())
        ]

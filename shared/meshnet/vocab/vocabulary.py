"""The base class of all vocabularies.

Invariants: those of the package `meshnet.vocab`. A subclass only tokenises one span of text and gives the bytes of one
token. The base class checks sizes, handles sentinels (`control_text`) and adds the beginning-of-sequence token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.openai.utf8 import Utf8Decoder
from meshnet.vocab.control_text import ControlSpellings, Sentinels, Span
from meshnet.vocab.errors import VocabularyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from meshnet.openai.specification import ChatMessage
    from meshnet.vocab.chat_template import ChatTemplate

__all__ = ["PROMPT_BYTES_MAX", "IncrementalDecoder", "RenderContext", "Traits", "Vocabulary", "VocabularyError"]

# Limit for the UTF-8 bytes of a prompt, and of a rendered conversation. Tokenisers take more than linear time.
PROMPT_BYTES_MAX: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RenderContext:
    """Values of one request with which its conversation is rendered.

    Attributes:
        now: local time, for templates that state the date.
        nonce: ASCII letters and digits that the user cannot guess, fresh for every request.
    """

    now: datetime
    nonce: str


@dataclass(frozen=True, slots=True)
class Traits:
    """Facts about a vocabulary.

    Attributes:
        size: token ids are 0 to size - 1.
        context_length: most positions of a sequence, as given by the caller that opened the vocabulary.
        end_tokens: ids that end a generation, ascending.
        bos_token: id that must come first; None if the model needs none.
    """

    size: int
    context_length: int
    end_tokens: tuple[int, ...]
    bos_token: int | None


class Vocabulary(ABC):
    """One model's vocabulary, with its chat template. It is immutable; several threads may use it at once."""

    def __init__(self, traits: Traits, *, template: ChatTemplate | None, control_spellings: Iterable[str]) -> None:
        self.traits = traits
        self._template = template
        self._spellings = ControlSpellings(control_spellings)

    @property
    def size(self) -> int:
        """Number of token ids."""
        return self.traits.size

    @property
    def context_length(self) -> int:
        """Most positions of a sequence, prompt and completion together."""
        return self.traits.context_length

    @property
    def end_tokens(self) -> tuple[int, ...]:
        """Ids that end a generation."""
        return self.traits.end_tokens

    def tokenise_chat(self, messages: Sequence[ChatMessage], context: RenderContext) -> list[int]:
        """Render a conversation with the model's template and tokenise it.

        Raises:
            VocabularyError: `prompt_too_large` if the texts have more than `PROMPT_BYTES_MAX` bytes, before or after
                rendering; `template_missing` if the model has no template; `template_refused` if the template does not
                accept the conversation.
        """
        if self._template is None:
            raise VocabularyError("template_missing", "No chat template", "This model has no chat template.")
        _check_size(message.content for message in messages)
        sentinels = Sentinels(self._spellings, context.nonce)
        protected = [{"role": str(message.role), "content": sentinels.protect(message.content)} for message in messages]
        rendered = self._template.render(protected, now=context.now)
        _check_size([rendered])
        return self._with_bos(self._tokenise_spans(sentinels.restore(rendered)))

    def tokenise_text(self, text: str) -> list[int]:
        """Tokenise text as it is; nothing in it becomes a control token.

        Raises:
            VocabularyError: `prompt_too_large` if the text has more than `PROMPT_BYTES_MAX` bytes.
        """
        _check_size([text])
        return self._with_bos(self._tokenise_spans([Span(text, is_plain=True)]))

    def decoder(self) -> IncrementalDecoder:
        """Return a decoder for the tokens of one generation."""
        return IncrementalDecoder(self)

    @abstractmethod
    def piece(self, token_id: int) -> bytes:
        """Return the bytes of one token as they appear in text; control tokens have none.

        Raises:
            VocabularyError: `bad_token_id` if the id is outside the vocabulary.
        """

    @abstractmethod
    def _tokenise(self, text: str, *, parse_special: bool, continues: bool) -> list[int]:
        """Tokenise one span without adding anything.

        Args:
            text: not empty.
            parse_special: if true, spellings of control tokens become control tokens.
            continues: true if another span of the same text comes before this one.
        """

    def _tokenise_spans(self, spans: Sequence[Span]) -> list[int]:
        token_ids: list[int] = []
        for index, span in enumerate(spans):
            if span.text:
                token_ids += self._tokenise(span.text, parse_special=not span.is_plain, continues=index > 0)
        return token_ids

    def _with_bos(self, token_ids: list[int]) -> list[int]:
        """Put the beginning-of-sequence token first if the vocabulary has one and it is not there yet."""
        bos = self.traits.bos_token
        return token_ids if bos is None or token_ids[:1] == [bos] else [bos, *token_ids]


class IncrementalDecoder:
    """Turns the tokens of one generation into text; an incomplete character waits for its other bytes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._utf8 = Utf8Decoder()

    def push(self, token_id: int) -> str:
        """Take one token; return the characters that are complete now."""
        return self._utf8.push(self._vocabulary.piece(token_id))

    def finish(self) -> str:
        """Return the text of an incomplete character at the end."""
        return self._utf8.finish()


def _check_size(texts: Iterable[str]) -> None:
    size_bytes = sum(len(text.encode()) for text in texts)
    if size_bytes > PROMPT_BYTES_MAX:
        message = f"The prompt has {size_bytes} bytes; the limit is {PROMPT_BYTES_MAX}."
        raise VocabularyError("prompt_too_large", "Prompt too large", message)

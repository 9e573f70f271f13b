"""Tokenises the three forms of a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.openai.specification import ChatPrompt, TextPrompt

if TYPE_CHECKING:
    from meshnet.openai.specification import Prompt
    from meshnet.vocab.vocabulary import RenderContext, Vocabulary


def tokenise_prompt(vocabulary: Vocabulary, prompt: Prompt, context: RenderContext) -> tuple[int, ...]:
    """Tokenise a prompt. If it is given as token ids, they are taken as they are.

    Raises:
        VocabularyError: the text is too large, or the template does not accept the conversation.
    """
    if isinstance(prompt, ChatPrompt):
        return tuple(vocabulary.tokenise_chat(prompt.messages, context))
    if isinstance(prompt, TextPrompt):
        return tuple(vocabulary.tokenise_text(prompt.text))
    return prompt.token_ids

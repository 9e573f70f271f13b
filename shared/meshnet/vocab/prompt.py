"""Tokenises a prompt: a conversation, a text, or ids of tokens, which stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.openai.specification import ChatPrompt, TextPrompt

if TYPE_CHECKING:
    from meshnet.openai.specification import Prompt
    from meshnet.vocab.vocabulary import RenderContext, Vocabulary


def tokenise_prompt(vocabulary: Vocabulary, prompt: Prompt, context: RenderContext) -> tuple[int, ...]:
    """Return the token ids of a prompt. If the prompt already consists of token ids, it returns them unchecked.

    Raises:
        VocabularyError: the text is too large, or the model's template is missing or does not accept the conversation.
    """
    if isinstance(prompt, ChatPrompt):
        return tuple(vocabulary.tokenise_chat(prompt.messages, context))
    if isinstance(prompt, TextPrompt):
        return tuple(vocabulary.tokenise_text(prompt.text))
    return prompt.token_ids

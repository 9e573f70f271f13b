"""Opens the vocabulary of a model: that of its GGUF file, or the FakeEngine's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.vocab.byte_vocabulary import ByteVocabulary

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.vocab.vocabulary import Vocabulary

# `general.architecture` in the files of the FakeEngine's "models".
FAKE_ARCHITECTURE: Final = "fake"


def open_vocabulary(
    path: Path, *, architecture: str, context_length: int, chat_template: str | None = None
) -> Vocabulary:
    """Open the vocabulary of a GGUF file, which need not hold tensors. Blocks for a fraction of a second.

    Args:
        path: the file; it is not read if the architecture is `fake`.
        architecture: `general.architecture` of the model.
        context_length: most positions of a sequence.
        chat_template: a template to use instead of the file's own; if empty or None, the file's own is used.

    Raises:
        VocabularyError: `vocabulary_invalid` if the file cannot be read; `template_invalid` if the chat template is
            malformed or too long; `llama_missing` if llama.cpp's bindings or their library are not installed.
    """
    if architecture == FAKE_ARCHITECTURE:
        return ByteVocabulary(context_length, chat_template=chat_template)
    from meshnet.vocab.llama_vocabulary import LlamaVocabulary  # noqa: PLC0415 - llama_cpp loads a library on import

    return LlamaVocabulary.open(path, context_length=context_length, chat_template=chat_template)

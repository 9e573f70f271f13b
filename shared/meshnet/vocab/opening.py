"""Choosing the vocabulary of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.vocab.byte_vocabulary import ByteVocabulary

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.vocab.vocabulary import Vocabulary

# The FakeEngine's "models" name this in `general.architecture`.
FAKE_ARCHITECTURE: Final = "fake"


def open_vocabulary(
    path: Path, *, architecture: str, context_length: int, chat_template: str | None = None
) -> Vocabulary:
    """Open the vocabulary of a GGUF file, which may hold no tensors. Blocks for a fraction of a second.

    Args:
        path: the file; not read for the architecture `fake`.
        architecture: `general.architecture` of the model.
        context_length: positions offered for one sequence.
        chat_template: instead of the file's own; empty means the file's own.

    Raises:
        VocabularyError: `vocabulary_invalid`, `template_invalid`, or `llama_missing` where the bindings or their
            library are not installed.
    """
    if architecture == FAKE_ARCHITECTURE:
        return ByteVocabulary(context_length, chat_template=chat_template)
    from meshnet.vocab.llama_vocabulary import LlamaVocabulary  # noqa: PLC0415 - llama_cpp loads a library on import

    return LlamaVocabulary.open(path, context_length=context_length, chat_template=chat_template)

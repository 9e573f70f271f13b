"""What the whole model answers in one process, row by row: the side that everything else is compared with.

Independent of worker, protocol and site: the demo's loop over the bindings of the same library, with the batch shapes
of a route (prompt chunks of 128 rows, then one row a step), the same positions and as many threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import llama_cpp
import numpy as np

from meshnet.vocab import open_vocabulary
from meshnet.vocab.vocabulary import Vocabulary
from tests.parity.batch_shapes import CHUNK_ROWS, CONTEXT_LENGTH
from unsplit import WholeModel, prompt_tokens, text_of


class EmptiedModel(WholeModel):
    """The whole model, loaded once, that can begin anew."""

    def forget(self) -> None:
        """Clear all cells, contents included: the next prompt finds a context as new."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)


class NotFiniteError(Exception):
    """The unsplit model itself gave a row that nothing can be compared with."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One prompt's greedy continuation.

    Attributes:
        prompt: token ids, the chat template around the text.
        rows: logits before each drawn token, [vocab] f32 little-endian each.
        tokens: what was drawn; an end token does not end it.
        text: of the tokens before the first end token.
        completion_tokens: those tokens, with the end token if there is one.
    """

    prompt: tuple[int, ...]
    rows: tuple[bytes, ...]
    tokens: tuple[int, ...]
    text: str
    completion_tokens: int


def _greedy_rows(model: WholeModel, prompt: Sequence[int], rows: int) -> Iterator[tuple[int, bytes]]:
    """Draw `rows` tokens by arg max, ties by the smaller id; the token and the row it was drawn from."""
    logits = None
    for begin in range(0, len(prompt), CHUNK_ROWS):
        chunk = prompt[begin : begin + CHUNK_ROWS]
        logits = model.feed(chunk, begin, want_logits=begin + len(chunk) == len(prompt))
    for index in range(rows):
        if logits is None or not np.isfinite(logits).all():
            raise NotFiniteError("the unsplit model gave no finite logits")
        token = int(np.argmax(logits))
        yield token, logits.tobytes()
        logits = model.feed([token], len(prompt) + index, want_logits=True)


def answer_unsplit(path: Path, prompts: Sequence[str], rows: int, threads: int) -> list[Reference]:
    """Run every prompt through an empty context of the whole model.

    Raises:
        NotFiniteError: a row is not finite.
    """
    vocabulary = open_vocabulary(path, architecture="llama", context_length=CONTEXT_LENGTH)
    references = []
    model = EmptiedModel(str(path), CONTEXT_LENGTH, CHUNK_ROWS, threads)
    try:
        for prompt in prompts:
            model.forget()
            ids = prompt_tokens(vocabulary, prompt)
            references.append(_reference(vocabulary, ids, list(_greedy_rows(model, ids, rows))))
    finally:
        model.close()
    return references


def _reference(vocabulary: Vocabulary, prompt: Sequence[int], drawn: Sequence[tuple[int, bytes]]) -> Reference:
    tokens = tuple(token for token, _row in drawn)
    ended = next((at + 1 for at, token in enumerate(tokens) if token in vocabulary.end_tokens), len(tokens))
    rows = tuple(row for _token, row in drawn)
    return Reference(tuple(prompt), rows, tokens, text_of(vocabulary, tokens[:ended]), ended)

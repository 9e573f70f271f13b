"""Answers a prompt with the unsplit model in this process, for comparison with a route's answer.

    unsplit.py MODEL.gguf < request.json

It uses neither worker, protocol nor site: it is a greedy loop over the bindings of the same llama.cpp library, with the
batch shapes of a route. Only the vocabulary is the Gateway's, so that both answers begin with the same tokens. It reads
a `Request` as JSON and prints {"tokens": [...], "text_sha256": "..."}.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import llama_cpp
import numpy as np
import numpy.typing as npt

from meshnet.openai.specification import ChatMessage, Role
from meshnet.vocab import open_vocabulary
from meshnet.vocab.vocabulary import RenderContext, Vocabulary

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Request:
    """A prompt, and settings that must equal the route's: rows of a prompt chunk, context length, threads."""

    prompt: str
    max_tokens: int
    chunk_rows: int
    context_length: int
    threads: int


class WholeModel:
    """One llama.cpp context of the whole model with one sequence. `close` frees it."""

    def __init__(self, path: str, context_length: int, chunk_rows: int, threads: int) -> None:
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        model_parameters = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), model_parameters)
        if not self._model:
            raise SystemExit(f"unsplit: cannot load {path}")
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = context_length
        parameters.n_batch = parameters.n_ubatch = chunk_rows
        parameters.n_threads = parameters.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(self._model, parameters)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._vocab_size = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._batch = llama_cpp.llama_batch_init(chunk_rows, 0, 1)

    def feed(self, tokens: Sequence[int], position: int, *, want_logits: bool) -> Logits | None:
        """Run one batch of tokens that begins at `position`.

        Returns:
            The logits of the last row, [vocab] f32, valid until the next call; None unless `want_logits`.
        """
        batch = self._batch
        batch.n_tokens = len(tokens)
        for row, token in enumerate(tokens):
            batch.token[row] = token
            batch.pos[row] = position + row
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = 0
            batch.logits[row] = want_logits and row == len(tokens) - 1
        if status := llama_cpp.llama_decode(self._context, batch):
            raise SystemExit(f"unsplit: llama_decode returned {status}")
        if not want_logits:
            return None
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._vocab_size,))

    def is_end(self, token: int) -> bool:
        """Return whether the token ends a generation."""
        return bool(llama_cpp.llama_vocab_is_eog(self._vocab, token))

    def close(self) -> None:
        """Free the context and the model; call it once."""
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(level: int, text: bytes, user_data: ctypes.c_void_p) -> None:
    """Discard the library's log, which does not belong in this program's output."""


def greedy(model: WholeModel, prompt: Sequence[int], max_tokens: int, chunk_rows: int) -> Iterator[int]:
    """Yield the most probable token ids (the smaller of equal ones), until an end token or `max_tokens` of them."""
    logits = None
    for begin in range(0, len(prompt), chunk_rows):
        chunk = prompt[begin : begin + chunk_rows]
        logits = model.feed(chunk, begin, want_logits=begin + len(chunk) == len(prompt))
    for index in range(max_tokens):
        if logits is None or not np.isfinite(logits).all():
            raise SystemExit("unsplit: no finite logits")
        token = int(np.argmax(logits))
        yield token
        if model.is_end(token) or index + 1 == max_tokens:
            return
        logits = model.feed([token], len(prompt) + index, want_logits=True)


def prompt_tokens(vocabulary: Vocabulary, prompt: str) -> list[int]:
    """Return the token ids of the prompt as one user message, rendered with the model's own chat template."""
    context = RenderContext(now=datetime.now(UTC), nonce="unsplit")
    return vocabulary.tokenise_chat([ChatMessage(Role.USER, prompt)], context)


def text_of(vocabulary: Vocabulary, tokens: Sequence[int]) -> str:
    """Return the text of a completion; end tokens have no text."""
    decoder = vocabulary.decoder()
    return "".join(decoder.push(token) for token in tokens if token not in vocabulary.end_tokens) + decoder.finish()


def main() -> int:
    """Read the request from standard input, answer it and print the result."""
    path, request = Path(sys.argv[1]), Request(**json.load(sys.stdin))
    vocabulary = open_vocabulary(path, architecture="llama", context_length=request.context_length)
    prompt = prompt_tokens(vocabulary, request.prompt)
    model = WholeModel(str(path), request.context_length, request.chunk_rows, request.threads)
    try:
        tokens = list(greedy(model, prompt, request.max_tokens, request.chunk_rows))
    finally:
        model.close()
    digest = hashlib.sha256(text_of(vocabulary, tokens).encode()).hexdigest()
    print(json.dumps({"tokens": tokens, "text_sha256": digest}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

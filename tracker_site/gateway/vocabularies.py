"""Keeps vocabularies in memory, and tokenises outside the event loop.

Invariants: if several requests wait for a vocabulary, it is loaded once. At most `OPEN_MAX` vocabularies stay loaded.
Two threads do all tokenising, so that long prompts cannot occupy all processor cores.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from meshnet.vocab import RenderContext, Vocabulary, open_vocabulary, tokenise_prompt

if TYPE_CHECKING:
    from meshnet.openai.specification import Prompt
    from tracker_site.gateway.ports import ServedModel

OPEN_MAX: Final = 16
THREADS: Final = 2


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="tokenise")


class Vocabularies:
    """A cache of vocabularies. Belongs to one event loop."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[bytes, int, str], asyncio.Future[Vocabulary]] = OrderedDict()

    async def get(self, model: ServedModel) -> Vocabulary:
        """Return the vocabulary of a model; if it is not in memory, load it.

        Raises:
            VocabularyError: the vocabulary cannot be loaded; the next call tries again.
        """
        key = (model.artifact_digest, model.context_length, model.chat_template)
        opening = self._open.get(key)
        if opening is None:
            opening = asyncio.get_running_loop().run_in_executor(_executor(), _open, model)
            self._open[key] = opening
            opening.add_done_callback(lambda done: self._forget_failure(key, done))
        self._open.move_to_end(key)
        while len(self._open) > OPEN_MAX:
            self._open.popitem(last=False)
        return await asyncio.shield(opening)

    def _forget_failure(self, key: tuple[bytes, int, str], done: asyncio.Future[Vocabulary]) -> None:
        if (done.cancelled() or done.exception() is not None) and self._open.get(key) is done:
            del self._open[key]


async def tokenise(vocabulary: Vocabulary, prompt: Prompt) -> tuple[int, ...]:
    """Tokenise a prompt in one of the tokenising threads.

    Raises:
        VocabularyError: the text is too large, or the chat template refuses the conversation.
    """
    return await asyncio.get_running_loop().run_in_executor(_executor(), _tokenise, vocabulary, prompt)


def _open(model: ServedModel) -> Vocabulary:
    return open_vocabulary(
        Path(model.vocabulary_path),
        architecture=model.architecture,
        context_length=model.context_length,
        chat_template=model.chat_template or None,
    )


def _tokenise(vocabulary: Vocabulary, prompt: Prompt) -> tuple[int, ...]:
    context = RenderContext(now=datetime.now().astimezone(), nonce=secrets.token_hex(16))
    return tokenise_prompt(vocabulary, prompt, context)

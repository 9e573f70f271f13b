"""The one model of the local API: its name, its vocabulary, and the shard that the worker has loaded.

Invariants: the vocabulary is loaded once, in a thread, when the first request needs it; if that fails, the next request
tries again. At most two prompts are tokenised at once, in threads.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final

from meshnet.failure_codes import FailureCode
from meshnet.openai.objects import ModelObject
from meshnet.vocab import RenderContext, Vocabulary, open_vocabulary, tokenise_prompt
from node_app.agent.state import WorkerPhase
from node_app.sessions.local.terms import LocalShard
from node_app.system.blocking import run_blocking
from node_app.worker.refusal import StageRefusedError

if TYPE_CHECKING:
    from meshnet.openai.specification import Prompt
    from node_app.agent.agent import Agent
    from node_app.artifacts.model_file import ModelFile

TOKENISED_AT_ONCE: Final = 2
# The files of a split model are named `NAME-00001-of-00003.gguf`.
_PART_SUFFIX: Final = re.compile(r"-\d{5}-of-\d{5}$")


def model_name(model: ModelFile) -> str:
    """Return the name by which requests ask for the model: the file's name without part number and ending."""
    return _PART_SUFFIX.sub("", model.paths[0].stem)


class ServedModel:
    """The model that this node holds as a whole. Use it on one event loop."""

    def __init__(self, agent: Agent, model: ModelFile) -> None:
        self.name = model_name(model)
        self._agent = agent
        self._model = model
        self._created_s = int(time.time())
        self._loading: asyncio.Task[Vocabulary] | None = None
        self._tokenising = asyncio.Semaphore(TOKENISED_AT_ONCE)

    def to_object(self) -> ModelObject:
        """Return the model's entry in `/v1/models`."""
        shard = self._agent.worker.shard
        context_length = self._model.context_length if shard is None else shard.contract.context_length
        return ModelObject(
            id=self.name,
            object="model",
            created=self._created_s,
            owned_by="local",
            context_length=context_length,
        )

    def shard(self) -> LocalShard:
        """Return the loaded shard and its measured times.

        Raises:
            StageRefusedError: `not_ready`, the worker still loads or is being restarted.
        """
        facts = self._agent.worker.shard
        if facts is None or self._agent.state.worker.phase is not WorkerPhase.SERVING:
            reason = self._agent.state.worker.reason
            message = f"The worker is being restarted: {reason}." if reason else "The model is still being loaded."
            raise StageRefusedError(FailureCode.NOT_READY, message)
        speed, n_layers = facts.tracker.speed, facts.contract.n_layers
        return LocalShard(
            contract=facts.contract,
            decode_ms=speed.decode_ms_per_layer * n_layers + speed.tail_ms,
            tail_ms=speed.tail_ms,
            prefill_ms_per_row=speed.prefill_ms_per_layer * n_layers,
        )

    async def vocabulary(self, context_length: int) -> Vocabulary:
        """Return the model's vocabulary; the first call loads it.

        Args:
            context_length: the most positions of a session on the loaded shard.

        Raises:
            VocabularyError: the vocabulary cannot be loaded; the next call tries again.
        """
        if self._loading is None:
            self._loading = asyncio.create_task(self._load(context_length), name="vocabulary")
        try:
            return await asyncio.shield(self._loading)
        except BaseException:
            if self._loading is not None and self._loading.done():
                self._loading = None
            raise

    async def tokenise(self, vocabulary: Vocabulary, prompt: Prompt) -> tuple[int, ...]:
        """Tokenise a prompt in a thread and return its token ids; waits while two others are being tokenised.

        Raises:
            VocabularyError: the text is too large, or the template refuses the conversation.
        """
        context = RenderContext(now=datetime.now().astimezone(), nonce=secrets.token_hex(16))
        async with self._tokenising:
            return await run_blocking(lambda: tokenise_prompt(vocabulary, prompt, context), "tokenise")

    async def _load(self, context_length: int) -> Vocabulary:
        model = self._model
        return await run_blocking(
            lambda: open_vocabulary(
                model.paths[0], architecture=model.architecture, context_length=context_length, chat_template=None
            ),
            "vocabulary",
        )

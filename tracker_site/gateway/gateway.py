"""Starts generations, within limits, and keeps those that are not settled yet.

Invariants: every started generation is in `live` until it is settled. It counts against the limits by its `Slot`,
which is given back once, even if the generation fails before it starts or while it is being settled. A `Gateway`
belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Final

from meshnet.errors import RouteError, describe_unforeseen
from meshnet.openai.errors import SERVER_ERROR, RequestError
from meshnet.openai.http_refusals import unknown_model
from meshnet.openai.response_writer import ID_PREFIXES
from meshnet.openai.specification import TextPrompt
from meshnet.vocab import VocabularyError
from tracker_site.gateway.admission import Admission, admit
from tracker_site.gateway.generation import Generation
from tracker_site.gateway.slots import Slots, site_busy
from tracker_site.gateway.vocabularies import Vocabularies, tokenise

if TYPE_CHECKING:
    from meshnet.openai.specification import Face, GenerationSpec
    from tracker_site.gateway.parts import Parts
    from tracker_site.gateway.ports import Caller, ModelSource, ServedModel
    from tracker_site.gateway.slots import Slot

logger = logging.getLogger(__name__)

# Number of vocabularies that are loaded at the start; a large one takes half a second and some megabytes.
WARM_MODELS_MAX: Final = 4
_WARMING_PROMPT: Final = TextPrompt("a")


class Gateway:
    """Starts generations. `live` holds the generations that are not settled yet, by id."""

    def __init__(self, models: ModelSource, parts: Parts) -> None:
        self.models = models
        self.live: dict[str, Generation] = {}
        self._parts = parts
        self._vocabularies = Vocabularies()
        self._slots = Slots(parts.limits.generations_per_user, parts.limits.generations)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def start(self, caller: Caller, spec: GenerationSpec) -> Generation:
        """Admit a request, place its hold and start to answer it.

        Raises:
            RequestError: the model is unknown, the request does not fit the model, too many generations are running, or
                the site is busy or stopping.
            VocabularyError: the prompt cannot be tokenised.
            LedgerError: `insufficient_credit`, or the ledger did not answer.
        """
        if self._is_stopping:
            raise site_busy()
        slot = self._slots.take(caller.user_id)
        try:
            admission = await self._admit(spec)
            generation = Generation(_draw_id(spec.face), caller, spec, admission, self._parts, slot.answered)
        except BaseException:
            slot.release()
            raise
        self._launch(generation, slot)
        await generation.held()
        return generation

    async def warm_up(self) -> None:
        """Load vocabularies and connect to the relay, so that the first requests need not wait for either.

        A failure is only logged. If a later request fails for the same reason, its client gets the error.
        """
        for model in (await self.models.all_listed())[:WARM_MODELS_MAX]:
            try:
                await tokenise(await self._vocabularies.get(model), _WARMING_PROMPT)
            except VocabularyError as error:
                logger.warning("the vocabulary of %s cannot be used: %s", model.name, error.code)
        try:
            await self._parts.routes.warm_up()
        except RouteError as error:
            logger.warning("no route can be opened yet: %s", error.code)

    async def settled(self, timeout_s: float | None = None) -> bool:
        """Wait until the generations that now run are settled; return False if that takes longer than `timeout_s`."""
        if not self._tasks:
            return True
        _done, late = await asyncio.wait(set(self._tasks), timeout=timeout_s)
        return not late

    async def stop(self, timeout_s: float) -> None:
        """Refuse new generations, cancel and settle the present ones within `timeout_s`, and close the routes."""
        self._is_stopping = True
        for generation in list(self.live.values()):
            generation.cancel("site_stopping")
        if not await self.settled(timeout_s):
            logger.warning(
                "%d generations were not settled in time; the ledger will release their holds", len(self.live)
            )
        await self._parts.routes.close()

    async def _admit(self, spec: GenerationSpec) -> Admission:
        model = await self.find_model(spec.model)
        try:
            async with asyncio.timeout(self._parts.limits.tokenise_s):
                vocabulary = await self._vocabularies.get(model)
                prompt_tokens = await tokenise(vocabulary, spec.prompt)
        except TimeoutError:
            message = "The prompt could not be tokenised in time, because the site is busy; try again."
            raise RequestError("site_busy", message, status=503, error_type=SERVER_ERROR) from None
        seed = secrets.randbits(64)
        return admit(
            spec, model, vocabulary, prompt_tokens, seed, max_tokens_default=self._parts.limits.max_tokens_default
        )

    async def find_model(self, name: str) -> ServedModel:
        """Return the offered model with this name.

        Raises:
            RequestError: status 404, `model_not_found`.
        """
        model = await self.models.find(name)
        if model is None:
            raise unknown_model()
        return model

    def _launch(self, generation: Generation, slot: Slot) -> None:
        self.live[generation.id] = generation
        task = asyncio.create_task(generation.live(), name=f"generation {generation.id}")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._retire(generation, slot, done))

    def _retire(self, generation: Generation, slot: Slot, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.live.pop(generation.id, None)
        slot.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("generation %s ended with an internal error: %s", generation.id, describe_unforeseen(error))


def _draw_id(face: Face) -> str:
    return ID_PREFIXES[face] + secrets.token_hex(12)

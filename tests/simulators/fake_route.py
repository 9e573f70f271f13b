"""Routes without nodes: the FakeEngine's arithmetic behind the gateway's port, with every fault that a test may want.

Invariants: a route keeps the token window as a real tail does: it runs at most `TOKEN_ACK_WINDOW` tokens past what was
acknowledged, and fails with `gateway_lost` when it waits longer than the grace. What was opened is counted, and what
was closed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.errors import RouteError
from meshnet.generation.chunking import CHUNK_ROWS
from meshnet.generation.progress import PrefillAdvanced, TokenReceived
from meshnet.openai.events import FinishReason
from meshnet.openai.telemetry import Residence
from meshnet.sampling import SamplingTerms, sample, top_log_probabilities
from meshnet.sampling import log_probability as log_probability_of
from tests.simulators.fake_engine import DEFAULT_WIDTH, FakeSequence, FakeShard, logits_of
from tracker_site.routes.planning.request import RouteStage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from meshnet.generation.progress import RouteEvent
    from tracker_site.routes.planning.request import RouteRequest


class StageLostError(RouteError):
    """A stage is gone."""

    def __init__(self, stage: int) -> None:
        super().__init__("stage_lost", "Stage lost", f"Stage {stage} is gone.")
        self.stage = stage


def stages_of(n_layers: int, owner_ids: Sequence[int]) -> list[RouteStage]:
    """Stages of equal size, one for each owner."""
    bounds = [n_layers * index // len(owner_ids) for index in range(len(owner_ids) + 1)]
    return [
        RouteStage(f"n{index}", f"node-{index}", owner_id, bounds[index], bounds[index + 1], "relay")
        for index, owner_id in enumerate(owner_ids)
    ]


@dataclass
class Script:
    """What happens on a route.

    Attributes:
        token_ids: sent instead of what the FakeEngine would draw.
        refuse: raised instead of opening.
        open_gate: opening waits for it.
        fail_at: before the token of this index, `failure` is raised.
        stall_at: before the token of this index, nothing more comes.
        step_s: time of one token.
        grace_s: how long the tail waits for an acknowledgement.
    """

    token_ids: Sequence[int] | None = None
    refuse: RouteError | None = None
    open_gate: asyncio.Event | None = None
    fail_at: int | None = None
    failure: Exception = field(default_factory=lambda: StageLostError(1))
    stall_at: int | None = None
    step_s: float = 0.0
    grace_s: float = 2.0

    def open_now(self) -> None:
        """Let openings pass."""
        if self.open_gate is not None:
            self.open_gate.set()


class FakeRoutes:
    """Opens fake routes; `script` is that of the next ones."""

    def __init__(self, owner_ids: Sequence[int] = (1, 2), script: Script | None = None) -> None:
        self.owner_ids = owner_ids
        self.script = script or Script()
        self.opened: list[FakeRoute] = []
        self.is_closed = False
        self.is_warm = False

    async def warm_up(self) -> None:
        if self.script.refuse is not None:
            raise self.script.refuse
        self.is_warm = True

    async def open_route(self, request: RouteRequest) -> FakeRoute:
        if self.script.open_gate is not None:
            await self.script.open_gate.wait()
        if self.script.refuse is not None:
            raise self.script.refuse
        route = FakeRoute(request, stages_of(request.n_layers, self.owner_ids), self.script)
        self.opened.append(route)
        return route

    async def close(self) -> None:
        self.is_closed = True

    @property
    def open_count(self) -> int:
        """Routes that nobody has closed."""
        return sum(route.close_count == 0 for route in self.opened)


class FakeRoute:
    """One open route."""

    def __init__(self, request: RouteRequest, stages: list[RouteStage], script: Script) -> None:
        self.request = request
        self.stages = stages
        self.close_count = 0
        self.close_reasons: list[str] = []
        self.acknowledged = -1
        self.sent = 0
        self._script = script
        self._acknowledgement = asyncio.Event()
        sampling = request.sampling
        self._terms = SamplingTerms(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            seed=sampling.seed or 0,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            logit_bias=dict(sampling.logit_bias),
        )

    def acknowledge(self, index: int) -> None:
        self.acknowledged = max(self.acknowledged, index)
        self._acknowledgement.set()

    async def close(self, reason: str) -> None:
        self.close_count += 1
        self.close_reasons.append(reason)

    async def events(self) -> AsyncIterator[RouteEvent]:
        sequence = FakeSequence(FakeShard(self.request.n_layers, DEFAULT_WIDTH, 0, self.request.n_layers))
        prompt = self.request.prompt_tokens
        row: tuple[int, ...] = ()
        for begin in range(0, len(prompt), CHUNK_ROWS):
            row = sequence.step_tokens(prompt[begin : begin + CHUNK_ROWS])[-1]
            await asyncio.sleep(0)
            yield PrefillAdvanced(min(begin + CHUNK_ROWS, len(prompt)), len(prompt))
        counts: Counter[int] = Counter()
        for index in range(self.request.max_tokens):
            await self._step(index)
            logits = logits_of(row)
            token_id = self._draw(logits, counts, index, len(prompt) + index)
            counts[token_id] += 1
            self.sent += 1
            event = self._event(index, token_id, logits)
            yield event
            if event.finish is not None:
                return
            (row,) = sequence.step_tokens([token_id])

    async def _step(self, index: int) -> None:
        await asyncio.sleep(self._script.step_s)
        if index == self._script.fail_at:
            raise self._script.failure
        if index == self._script.stall_at:
            await asyncio.Event().wait()
        while index > self.acknowledged + TOKEN_ACK_WINDOW:
            self._acknowledgement.clear()
            try:
                async with asyncio.timeout(self._script.grace_s):
                    await self._acknowledgement.wait()
            except TimeoutError:
                raise RouteError("gateway_lost", "Gateway lost", "Nothing was acknowledged in time.") from None

    def _draw(self, logits: Sequence[float], counts: Counter[int], index: int, position: int) -> int:
        if self._script.token_ids is not None:
            return self._script.token_ids[index % len(self._script.token_ids)]
        return sample(logits, self._terms, counts, position)

    def _event(self, index: int, token_id: int, logits: Sequence[float]) -> TokenReceived:
        finish: FinishReason | None = None
        if token_id in self.request.end_tokens:
            finish = FinishReason.STOP
        elif index + 1 == self.request.max_tokens:
            finish = FinishReason.LENGTH
        asked = self.request.sampling
        top = top_log_probabilities(logits, asked.top_logprobs) if asked.logprobs else ()
        return TokenReceived(
            index=index,
            token_id=token_id,
            logprob=log_probability_of(logits, token_id) if asked.logprobs else None,
            top_logprobs=tuple((entry.token_id, entry.logprob) for entry in top),
            finish=finish,
            residence=tuple(
                (stage, Residence(queue_us=1, compute_us=2, codec_us=3)) for stage in range(len(self.stages))
            ),
        )

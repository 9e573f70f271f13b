"""The gateway's surroundings in memory: a ledger, records, a catalog of one fake model."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from meshnet.errors import LedgerError
from meshnet.openai.events import Failed, Finished, TelemetryUpdate, TextDelta
from meshnet.openai.parsing import parse_chat_request, parse_completion_request
from tests.simulators.fake_route import FakeRoutes, Script
from tracker_site.billing.pricing import Prices
from tracker_site.gateway.gateway import Gateway
from tracker_site.gateway.limits import LIMITS, Limits
from tracker_site.gateway.parts import Parts
from tracker_site.gateway.ports import Caller, ServedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.openai.events import GenerationEvent
    from meshnet.openai.specification import GenerationSpec
    from tracker_site.billing.pricing import Share
    from tracker_site.gateway.generation import Generation
    from tracker_site.gateway.records import Record

ALICE = Caller(user_id=11)
MODEL = ServedModel(
    name="fake",
    artifact_digest=bytes(32),
    architecture="fake",
    n_layers=4,
    context_length=512,
    vocabulary_path="unused",
    chat_template="",
    prices=Prices(prompt_micros=1_000_000, completion_micros=10_000_000),
    created_s=1_700_000_000,
)


@dataclass
class MemoryLedger:
    """Holds, and what became of them."""

    credit_micros: int = 10**9
    gate: asyncio.Event | None = None
    settle_gate: asyncio.Event | None = None
    place_error: Exception | None = None
    settle_error: LedgerError | None = None
    placement: asyncio.Event = field(default_factory=asyncio.Event)
    settlement: asyncio.Event = field(default_factory=asyncio.Event)
    open: dict[uuid.UUID, int] = field(default_factory=dict)
    settled: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)

    async def place(self, user_id: int, amount_micros: int, generation_id: str) -> uuid.UUID:
        self.placement.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.place_error is not None:
            raise self.place_error
        if amount_micros > self.credit_micros:
            raise LedgerError("insufficient_credit", "Not enough credit", "The account does not cover this request.")
        hold_id = uuid.uuid4()
        self.open[hold_id] = amount_micros
        return hold_id

    async def settle(self, hold_id: uuid.UUID, charge_micros: int, shares: Sequence[Share]) -> None:
        if self.settle_gate is not None:
            await self.settle_gate.wait()
        if self.settle_error is not None:
            raise self.settle_error
        if charge_micros > self.open.pop(hold_id):
            raise LedgerError("bad_amount", "Impossible charge", "More than was held.")
        self.settlement.set()
        self.settled.append((charge_micros, [(share.owner_id, share.micros) for share in shares]))


class MemoryRecords:
    """Records in a list."""

    def __init__(self) -> None:
        self.stored: list[Record] = []

    async def store(self, record: Record) -> None:
        self.stored.append(record)


class OneModel:
    """A catalog with one model."""

    def __init__(self, model: ServedModel = MODEL) -> None:
        self.model = model

    async def find(self, name: str) -> ServedModel | None:
        return self.model if name == self.model.name else None

    async def all_listed(self) -> list[ServedModel]:
        return [self.model]


class World:
    """A gateway among stand-ins. Make it on a running loop."""

    def __init__(self, script: Script | None = None, model: ServedModel = MODEL, limits: Limits = LIMITS) -> None:
        self.routes = FakeRoutes(script=script)
        self.ledger = MemoryLedger()
        self.records = MemoryRecords()
        parts = Parts(self.routes, self.ledger, self.records, limits)
        self.gateway = Gateway(OneModel(model), parts)

    async def start(self, spec: GenerationSpec) -> Generation:
        return await self.gateway.start(ALICE, spec)

    async def run(self, spec: GenerationSpec) -> list[GenerationEvent]:
        """One generation, read to its end and settled."""
        async with asyncio.timeout(30):
            generation = await self.start(spec)
            events = [event async for event in generation.events()]
            await self.gateway.settled()
        return events

    def assert_clean(self) -> None:
        """Nothing is left open."""
        assert self.routes.open_count == 0
        assert all(route.close_count == 1 for route in self.routes.opened)
        assert not self.ledger.open
        assert not self.gateway.live


def chat(**changes: Any) -> GenerationSpec:
    body = {"model": "fake", "messages": [{"role": "user", "content": "hello"}], "temperature": 0} | changes
    return parse_chat_request(json.dumps(body).encode())


def completion(**changes: Any) -> GenerationSpec:
    body = {"model": "fake", "prompt": "hello", "temperature": 0} | changes
    return parse_completion_request(json.dumps(body).encode())


def text_of(events: Sequence[GenerationEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def last_of(events: Sequence[GenerationEvent]) -> Finished | Failed:
    last = events[-1]
    assert isinstance(last, Finished | Failed)
    assert not any(isinstance(event, Finished | Failed) for event in events[:-1])
    return last


def phases_of(events: Sequence[GenerationEvent]) -> list[str]:
    shown = [event.telemetry.phase.value for event in events if isinstance(event, TelemetryUpdate)]
    return list(dict.fromkeys(shown))

"""Drives one route: carries out the actions of its `RouteMachine` and gives the machine every input.

Invariants: the driver decides nothing. Every task that it starts ends with its attempt to open the route. If the task
that reads the events is cancelled, closing goes on in the background. The token window bounds the events that the
reader has not taken yet. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.errors import RouteError
from meshnet.failure_codes import TITLES, FailureCode
from meshnet.tickets import TICKET_ID_BYTES, sign_ticket
from tracker_site.routes.planning.edges import F32_BYTES, carrier_name, seam_after
from tracker_site.routes.planning.need import RouteNeed
from tracker_site.routes.planning.request import RouteStage
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.machine import RouteMachine
from tracker_site.routes.session.news import frame_packet, message_packet, read_relay_event
from tracker_site.routes.session.terms import TicketIssue, member_ticket, open_stage
from tracker_site.routes.session.transitions import RouteState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from meshnet.generation.progress import RouteEvent
    from meshnet.ids import SessionKey
    from meshnet.member_events import MemberEvent
    from tracker_site.control_plane.control import StageNews
    from tracker_site.routes.planning.request import RouteRequest
    from tracker_site.routes.route_parts import RouteParts
    from tracker_site.routes.session.machine_io import RouteAction, RouteInput
    from tracker_site.routes.session.terms import RouteTerms


class DrivenRoute:
    """One route, from planning to its end; `open_route` returns it.

    `on_over` is called with the session's id when the route is over, perhaps more than once.
    """

    def __init__(
        self, session: bytes, request: RouteRequest, parts: RouteParts, on_over: Callable[[bytes], object]
    ) -> None:
        self.session = session
        self._on_over = on_over
        self._request = request
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._machine = RouteMachine(session, request, parts.deadlines, self._loop.time())
        self._events: deque[RouteEvent] = deque()
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._open_stages: set[int] = set()

    # --- for the caller ---

    async def opened(self) -> None:
        """Plan and open the route; return when rows may flow.

        If the call is cancelled, opened stages are closed in the background.

        Raises:
            RouteError: if no route could be planned or opened, or the route was closed meanwhile.
        """
        self._settle()
        try:
            while self._machine.state in {RouteState.PLANNING, RouteState.OPENING}:
                self._changed.clear()
                await self._changed.wait()
        except asyncio.CancelledError:
            self._give(io.Cancelled(FailureCode.CANCELLED))
            raise
        if self._machine.failure is not None:
            raise self._machine.failure
        if self._machine.state is RouteState.CANCELLED:
            raise RouteError(FailureCode.CANCELLED, TITLES[FailureCode.CANCELLED], "The route was closed.")

    @property
    def stages(self) -> Sequence[RouteStage]:
        """The stages, head first; empty before the first plan."""
        terms = self._machine.terms
        if terms is None:
            return ()
        return tuple(_shown_stage(terms, stage) for stage in range(terms.n_stages))

    async def events(self) -> AsyncIterator[RouteEvent]:
        """Yield each event once; end after the last token, or when the route is closed.

        Raises:
            RouteError: if the route fails; the events before the failure have been yielded.
        """
        while True:
            while self._events:
                yield self._events.popleft()
            if self._machine.failure is not None:
                raise self._machine.failure
            if self._machine.is_over:
                return
            self._changed.clear()
            await self._changed.wait()

    def acknowledge(self, index: int) -> None:
        """Note that the reader has taken every token up to `index`, so that the tail may go on. Never blocks.

        If the route is over, the call is ignored.

        Raises:
            ValueError: if this token has not come.
        """
        self._machine.acknowledge(index, self._loop.time())
        self._settle()

    async def close(self, reason: str) -> None:
        """End the session and wait until every stage has been told. Idempotent."""
        self._give(io.Cancelled(reason))
        if self._closing:
            await asyncio.wait(self._closing)

    # --- for the site's news ---

    def hear(self, news: StageNews) -> None:
        """Handle a node's news of this session; news of an older attempt to open the route is ignored."""
        terms = self._machine.terms
        if terms is None or terms.key != news.key:
            return
        if news.stage is not None:
            if news.stage < terms.n_stages:
                self._give(io.StageGone(news.key.epoch, news.stage, news.code, news.message))
            return
        for stage, offer in enumerate(terms.plan.stages):
            if offer.node_id == news.node_id:
                self._give(io.NodeQuiet(news.key.epoch, stage))

    # --- inside ---

    def _give(self, given: RouteInput) -> None:
        self._machine.handle(given, self._loop.time())
        self._settle()

    def _tick(self) -> None:
        self._machine.tick(self._loop.time())
        self._settle()

    def _settle(self) -> None:
        """Carry out the machine's actions, pass its events to the reader, and set the timer for its next deadline."""
        for action in self._machine.actions():
            self._do(action)
        self._events.extend(self._machine.events())
        self._changed.set()
        if self._timer is not None:
            self._timer.cancel()
        deadline_s = self._machine.next_deadline_s()
        self._timer = None if deadline_s is None else self._loop.call_at(deadline_s, self._tick)
        if self._machine.is_over:
            self._on_over(self.session)

    def _do(self, action: RouteAction) -> None:
        match action:
            case io.PlanRoute(excluded, by_new_offers):
                self._start(self._plan(excluded, by_new_offers=by_new_offers))
            case io.OpenAttempt(terms):
                self._bind(terms)
                for stage in range(terms.n_stages):
                    self._start(self._open_stage(terms, stage))
            case io.SendFrame():
                self._parts.link.send(action.frame.key, [frame_packet(action)])
            case io.SendMessage():
                self._parts.link.send(action.message.key, [message_packet(action)])
            case io.CloseAttempt(terms, reason):
                self._close(terms, reason)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """If a task has raised an unexpected exception, log it and fail the route."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._parts.log_failure(error)
            self._give(io.PlanFailed(_unexpected()))
            if (terms := self._machine.terms) is not None:
                self._give(io.RelayFailed(terms.key.epoch, _unexpected().code, _unexpected().message))

    async def _plan(self, excluded: frozenset[str], *, by_new_offers: bool) -> None:
        need = RouteNeed(
            n_layers=self._request.n_layers,
            prompt_tokens=len(self._request.prompt_tokens),
            max_tokens=self._request.max_tokens,
            is_exact=self._request.is_exact,
            mixes_recipes=self._request.mixes_recipes,
            excluded_node_ids=excluded,
            legal_cuts=self._request.legal_cuts,
            opened=self._parts.load,
        )
        try:
            # No route works without the relay, so nothing is opened before the relay is connected.
            await self._parts.link.ready(self._parts.deadlines.relay_s)
            plan = await self._parts.offers.plan(self._request.artifact_digest, need, by_new_offers=by_new_offers)
        except RouteError as error:
            self._give(io.PlanFailed(error))
        else:
            self._give(io.Planned(plan))

    def _bind(self, terms: RouteTerms) -> None:
        link = self._parts.link
        ticket = self._ticket(terms, GATEWAY_STAGE, link.public_key)
        try:
            link.bind(terms.key, ticket, partial(self._hear_relay, terms.key))
        except RouteError as error:
            # Called later, since the machine's actions are being carried out now.
            self._loop.call_soon(self._give, io.RelayFailed(terms.key.epoch, error.code, error.message))

    def _hear_relay(self, key: SessionKey, event: MemberEvent) -> None:
        for given in read_relay_event(key, event):
            self._give(given)

    async def _open_stage(self, terms: RouteTerms, stage: int) -> None:
        offer, epoch = terms.plan.stages[stage], terms.key.epoch
        request = open_stage(terms, stage, self._ticket(terms, stage, offer.public_key))
        try:
            answer = await self._parts.nodes.open_stage(
                offer.node_id, request, self._parts.reply_channel, terms.deadlines.open_s
            )
        except RouteError as error:
            self._give(io.StageRefused(epoch, stage, error.code, error.message))
        else:
            self._open_stages.add(stage)
            self._parts.load[offer.node_id] += 1
            self._give(io.StageOpened(epoch, stage, answer.contract))

    def _ticket(self, terms: RouteTerms, stage: int, member_key: bytes) -> bytes:
        issue = TicketIssue(
            ticket_id=secrets.token_bytes(TICKET_ID_BYTES),
            relay_id=self._parts.relay_id,
            stage=stage,
            member_key=member_key,
            now_unix_s=time.time(),
        )
        return sign_ticket(member_ticket(terms, issue), self._parts.site_key)

    def _close(self, terms: RouteTerms, reason: str) -> None:
        """Close an attempt. If a stage is still being opened, the task that opens it is cancelled and closes it."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
        self._parts.link.leave(terms.key)
        stages, self._open_stages = self._open_stages, set()
        for stage in stages:
            node_id = terms.plan.stages[stage].node_id
            self._parts.load[node_id] -= 1
            task = self._parts.in_background(self._parts.nodes.close_stage(node_id, terms.key, reason))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _shown_stage(terms: RouteTerms, stage: int) -> RouteStage:
    offer, seam = terms.plan.stages[stage], seam_after(terms.edges, stage)
    shard = offer.shard
    return RouteStage(
        node_id=offer.node_id,
        node_name=offer.node_name,
        owner_id=offer.owner_id,
        layer_begin=shard.layer_begin,
        layer_end=shard.layer_end,
        carrier=carrier_name(terms.edges, stage),
        seam_bytes_per_token=0 if seam is None else seam.codec.packed_bytes(shard.seam_bytes_per_row // F32_BYTES),
        seam_codec="" if seam is None else seam.codec.label,
        recipe=shard.recipe,
    )


def _unexpected() -> RouteError:
    return RouteError(
        "route_failed",
        "Route failed",
        "An unexpected error occurred at the site; its administrator finds it in the site's log.",
    )

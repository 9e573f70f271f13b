"""The Gateway's side of a Route Session, as a state machine without I/O.

Invariants: only the table in `transitions.py` decides the reaction to an input, and each reaction is one method. A
terminal state is entered once and ignores all inputs. Every opened attempt is closed by one `CloseAttempt`. Each
attempt has its own epoch, and late inputs of an older attempt are ignored. A stage's contract, edges and tokens are
checked before they are used. Every state except the terminal ones has a deadline. Pure: the caller passes the time.
Source: docs/wire.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from meshnet.failure_codes import FailureCode, NodeCode
from meshnet.frame import Close, Keepalive, MessageError
from meshnet.ids import SessionKey
from meshnet.openai.telemetry import StageState
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.attempt import Attempt
from tracker_site.routes.session.contract_check import ContractError
from tracker_site.routes.session.inputs import RouteFailure, failure_of, kind_of
from tracker_site.routes.session.terms import route_terms
from tracker_site.routes.session.transitions import TERMINAL, TRANSITIONS, Reaction, RouteState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meshnet.errors import RouteError
    from meshnet.frame import Ack, PrefillProgress, TokenEvent
    from meshnet.generation.progress import RouteEvent
    from tracker_site.routes.planning.request import RouteRequest
    from tracker_site.routes.session.deadlines import RouteDeadlines
    from tracker_site.routes.session.machine_io import RouteAction, RouteInput
    from tracker_site.routes.session.terms import RouteTerms

# Number of plans that are tried; if the last one cannot be opened, the request fails.
MAX_ATTEMPTS: Final = 4


class RouteMachine:
    """The state machine of one route. Not thread-safe; owned by one driver. All times are monotonic seconds."""

    def __init__(self, session: bytes, request: RouteRequest, deadlines: RouteDeadlines, now_s: float) -> None:
        self.state = RouteState.PLANNING
        self.failure: RouteError | None = None
        self._session = session
        self._request = request
        self._deadlines = deadlines
        self._attempt: Attempt | None = None
        self._epoch = 0
        self._excluded: frozenset[str] = frozenset()
        self._has_new_offers = False
        self._last_failure: RouteFailure | None = None
        self._events: list[RouteEvent] = []
        self._actions: list[RouteAction] = [io.PlanRoute(self._excluded)]
        self._due_s = now_s + deadlines.open_s
        self._keepalive_due_s = now_s + deadlines.keepalive_s

    @property
    def is_over(self) -> bool:
        """Whether the route is finished, failed or cancelled."""
        return self.state in TERMINAL

    @property
    def terms(self) -> RouteTerms | None:
        """The terms of the latest attempt to open the route; None before the first plan."""
        return None if self._attempt is None else self._attempt.terms

    def events(self) -> list[RouteEvent]:
        """Return the events for the reader that have come since the last call."""
        if self._attempt is not None:
            self._events.extend(self._attempt.health.changes())
        events, self._events = self._events, []
        return events

    def actions(self) -> list[RouteAction]:
        """Return the actions that were added since the last call; the caller must carry them out in order."""
        actions, self._actions = self._actions, []
        return actions

    def next_deadline_s(self) -> float | None:
        """Return the time at which `tick` must be called; None if the route is over."""
        if self.is_over:
            return None
        waits = [self._due_s]
        if self._attempt is not None and self._is_running:
            waits.append(self._keepalive_due_s)
            tokens = self._attempt.tokens
            others = (self._attempt.health.next_deadline_s(), None if tokens is None else tokens.next_deadline_s())
            waits.extend(wait for wait in others if wait is not None)
        return min(waits)

    def handle(self, given: RouteInput, now_s: float) -> None:
        """Handle one input. If a message is wrong, the route fails; nothing is raised."""
        if self._is_stale(given):
            return
        reaction = TRANSITIONS[self.state, kind_of(given)]
        if reaction is Reaction.IGNORE:
            return
        try:
            if isinstance(given, io.Received):
                self._present.check_address(given.sender, given.message)
            self._REACTIONS[reaction](self, given, now_s)
        except MessageError as error:
            sender = given.sender if isinstance(given, io.Received) else None
            self._fail(RouteFailure(error.code, error.message, sender))

    def acknowledge(self, index: int, now_s: float) -> None:
        """Note that the reader has taken every token up to `index`. If the route is over, do nothing.

        Raises:
            ValueError: if this token has not come.
        """
        if self.is_over or self._attempt is None or self._attempt.tokens is None:
            return
        self._attempt.tokens.take(index, now_s)
        self._send_ack(self._attempt, now_s)

    def tick(self, now_s: float) -> None:
        """Handle the deadlines that have passed by `now_s`."""
        if self.is_over:
            return
        attempt = self._attempt
        if now_s >= self._due_s:
            self.handle(self._overdue(), now_s)
        elif attempt is not None and self._is_running:
            attempt.health.tick(now_s)
            self._send_ack(attempt, now_s)
            if now_s >= self._keepalive_due_s:
                self._keepalive_due_s = now_s + self._deadlines.keepalive_s
                for stage in range(attempt.terms.n_stages):
                    self._actions.append(io.SendMessage(stage, attempt.message(stage, Keepalive())))

    # --- inside ---

    @property
    def _is_running(self) -> bool:
        return self.state in {RouteState.PREFILL, RouteState.DECODE}

    def _is_stale(self, given: RouteInput) -> bool:
        match given:
            case io.Planned() | io.PlanFailed() | io.Overdue() | io.Cancelled():
                return False
            case io.Received(message=message):
                return message.session == self._session and message.epoch != self._epoch
            case _:
                return given.epoch != self._epoch

    @property
    def _present(self) -> Attempt:
        """The latest attempt.

        Raises:
            RuntimeError: if no attempt was opened yet.
        """
        if self._attempt is None:
            raise RuntimeError("no attempt was opened yet")
        return self._attempt

    # --- reactions of the table ---

    def _open(self, planned: io.Planned, now_s: float) -> None:
        self._epoch += 1
        terms = route_terms(SessionKey(self._session, self._epoch), self._request, planned.plan, self._deadlines)
        self._attempt = Attempt(terms, now_s)
        self.state = RouteState.OPENING
        self._due_s = now_s + self._deadlines.open_s
        self._actions.append(io.OpenAttempt(terms))

    def _note_bound(self, _: io.RelayBound, now_s: float) -> None:
        self._present.is_bound = True
        self._start_if_ready(self._present, now_s)

    def _note_opened(self, opened: io.StageOpened, now_s: float) -> None:
        try:
            self._present.note_opened(opened.stage, opened.contract)
        except ContractError as error:
            self._plan_again(RouteFailure(error.code, error.message, error.stage), now_s)
            return
        self._start_if_ready(self._present, now_s)

    def _retry(self, given: RouteInput, now_s: float) -> None:
        is_stale = isinstance(given, io.StageRefused) and given.code == NodeCode.WORKER_CHANGED
        self._plan_again(self._failure_of(given), now_s, is_stale=is_stale)

    def _take_ack(self, received: io.Received[Ack], now_s: float) -> None:
        if self._present.acknowledge(received.message, received.body, now_s):
            self._feed(self._present, now_s)

    def _advance(self, received: io.Received[PrefillProgress], now_s: float) -> None:
        advanced = self._present.advance(received.sender, received.body, now_s)
        if advanced is not None:
            self._expect_more(self._present, now_s)
            self._events.append(advanced)

    def _take_token(self, received: io.Received[TokenEvent], now_s: float) -> None:
        token = self._present.receive_token(received.sender, received.body, now_s)
        if token is None:
            return
        self.state = RouteState.DECODE
        self._expect_more(self._present, now_s)
        self._events.append(token)
        if token.finish is not None:
            self._end(RouteState.FINISHED, "finished")

    def _note_late(self, quiet: io.NodeQuiet, _: float) -> None:
        self._present.health.note_absent(quiet.stage)

    def _break_off(self, given: RouteInput, now_s: float) -> None:
        self._fail(self._believed(self._failure_of(given), now_s))

    def _give_up(self, failed: io.PlanFailed, _: float) -> None:
        """Fail, since no route was found.

        If an earlier attempt failed, the error is that attempt's failure, which says more than "no route". If it
        failed only because an offer was out of date, the error is the planner's.
        """
        failure = self._last_failure
        is_news = failure is not None and failure.code != NodeCode.WORKER_CHANGED
        self.failure = failure.to_error() if failure is not None and is_news else failed.error
        self._end(RouteState.FAILED, self.failure.code)

    def _cancel(self, cancelled: io.Cancelled, _: float) -> None:
        self._end(RouteState.CANCELLED, cancelled.reason)

    # Each method takes the time and an input, of the kinds that the table pairs with its reaction.
    _REACTIONS: ClassVar[Mapping[Reaction, Callable[..., None]]] = {
        Reaction.OPEN: _open,
        Reaction.NOTE_BOUND: _note_bound,
        Reaction.NOTE_OPENED: _note_opened,
        Reaction.RETRY: _retry,
        Reaction.FEED: _take_ack,
        Reaction.ADVANCE: _advance,
        Reaction.TAKE_TOKEN: _take_token,
        Reaction.NOTE_LATE: _note_late,
        Reaction.FAIL: _break_off,
        Reaction.GIVE_UP: _give_up,
        Reaction.CANCEL: _cancel,
    }

    # --- inside ---

    def _failure_of(self, given: RouteInput) -> RouteFailure:
        return failure_of(given, 0 if self._attempt is None else self._attempt.terms.n_stages)

    def _believed(self, failure: RouteFailure, now_s: float) -> RouteFailure:
        """Return `failure`, or a failure of the relay if a stage wrongly reports that the Gateway is lost.

        The report is wrong if the reader took the latest token at least half of `grace_s` ago. The relay must then have
        lost the acknowledgements.
        """
        tokens = None if self._attempt is None else self._attempt.tokens
        waits_since_s = None if tokens is None else tokens.reader_waits_since_s()
        is_long = waits_since_s is not None and now_s - waits_since_s >= self._deadlines.grace_s / 2
        if failure.code != FailureCode.GATEWAY_LOST or not is_long:
            return failure
        message = "The relay does not carry messages between the site and the route."
        return RouteFailure("relay_unavailable", message)

    def _start_if_ready(self, attempt: Attempt, now_s: float) -> None:
        if attempt.is_ready:
            self.state = RouteState.PREFILL
            self._keepalive_due_s = now_s + self._deadlines.keepalive_s
            attempt.health.hear(range(attempt.terms.n_stages), now_s)
            self._feed(attempt, now_s)

    def _feed(self, attempt: Attempt, now_s: float) -> None:
        self._expect_more(attempt, now_s)
        self._actions.extend(io.SendFrame(frame) for frame in attempt.chunks())

    def _expect_more(self, attempt: Attempt, now_s: float) -> None:
        """Set the deadline for the next message: the time that all stages together may take for a frame, and a margin.

        If the tail waits for an acknowledgement, `grace_s` is added, since the tail ends the session after that time.
        """
        self._due_s = now_s + attempt.terms.step_s * attempt.terms.n_stages + self._deadlines.margin_s
        if attempt.tokens is not None and attempt.tokens.is_tail_waiting:
            self._due_s += self._deadlines.grace_s

    def _send_ack(self, attempt: Attempt, now_s: float) -> None:
        ack = None if attempt.tokens is None else attempt.tokens.take_ack(now_s)
        if ack is not None:
            self._expect_more(attempt, now_s)
            tail = attempt.terms.tail
            self._actions.append(io.SendMessage(tail, attempt.message(tail, ack)))

    def _overdue(self) -> io.Overdue:
        """Return the input for a passed deadline, with the stage that is to blame for it."""
        attempt = self._attempt
        match self.state, attempt:
            case RouteState.OPENING, Attempt():
                stage = attempt.first_unopened()
                silent = "The relay" if stage is None else f"Stage {stage}"
                return io.Overdue(FailureCode.STAGE_LOST, f"{silent} did not answer while the route was opened.", stage)
            case RouteState.PREFILL | RouteState.DECODE, Attempt():
                owing = 0 if self.state is RouteState.PREFILL else attempt.terms.tail
                stage = attempt.health.most_silent(owing)
                message = f"No stage has done anything in time; stage {stage} has been silent for the longest."
                return io.Overdue(FailureCode.STEP_TIMEOUT, message, stage)
            case _:
                return io.Overdue("planning_timeout", "No route was planned in time.")

    def _plan_again(self, failure: RouteFailure, now_s: float, *, is_stale: bool = False) -> None:
        """Plan again without the node at fault. If no stage is at fault or no attempts are left, fail.

        If the node's offer was only out of date (`is_stale`), the node may be chosen again, and all offers are read
        again. This is done once in a route, since it updates the offer of every stage.
        """
        attempt = self._attempt
        if attempt is None or failure.stage is None or self._epoch >= MAX_ATTEMPTS:
            self._fail(failure)
            return
        self._close(attempt, failure.code)
        self._last_failure = failure
        by_new_offers = is_stale and not self._has_new_offers
        if by_new_offers:
            self._has_new_offers = True
        else:
            self._excluded |= {attempt.terms.plan.stages[failure.stage].node_id}
        self.state = RouteState.PLANNING
        self._due_s = now_s + self._deadlines.open_s
        self._actions.append(io.PlanRoute(self._excluded, by_new_offers=by_new_offers))

    def _fail(self, failure: RouteFailure) -> None:
        if self._attempt is not None and failure.stage is not None:
            self._attempt.health.note(failure.stage, StageState.LOST)
        self.failure = failure.to_error()
        self._end(RouteState.FAILED, failure.code)

    def _end(self, state: RouteState, reason: str) -> None:
        if self._attempt is not None and self.state is not RouteState.PLANNING:
            self._close(self._attempt, reason)
        self.state = state

    def _close(self, attempt: Attempt, reason: str) -> None:
        attempt.close()
        if attempt.is_bound:
            for stage in range(attempt.terms.n_stages):
                self._actions.append(io.SendMessage(stage, attempt.message(stage, Close(reason))))
        self._actions.append(io.CloseAttempt(attempt.terms, reason))

"""The protocol of one open local session, without I/O.

Invariants: a session runs, then it is over: finished, failed or closed; later messages change nothing. The edges, the
acknowledgements and the tokens in the worker's messages are checked. A running session always has a deadline. Pure: the
caller passes the time, in monotonic seconds. Source: docs/wire.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.constants import GATEWAY_STAGE
from meshnet.errors import RouteError
from meshnet.failure_codes import STAGE_LOSSES, FailureCode, title_of
from meshnet.frame import (
    Ack,
    EdgeMessage,
    Keepalive,
    MessageError,
    PrefillProgress,
    SessionGone,
    StageFailure,
    TokenEvent,
)
from meshnet.generation.progress import PrefillAdvanced
from meshnet.generation.prompt_feed import PromptFeed
from meshnet.generation.token_book import TokenBook, token_terms
from meshnet.ids import Address, Edge
from node_app.sessions.local.terms import STAGE

if TYPE_CHECKING:
    from meshnet.frame import EdgeBody, Frame
    from meshnet.generation.progress import RouteEvent
    from node_app.sessions.local.terms import LocalTerms

PROMPT_EDGE: Final = Edge(GATEWAY_STAGE, STAGE)
TOKEN_EDGE: Final = Edge(STAGE, GATEWAY_STAGE)


class LocalRouteError(RouteError):
    """The session failed on this machine's worker; if the worker was lost, the code is `stage_lost`."""

    def __init__(self, code: str, message: str) -> None:
        told = FailureCode.STAGE_LOST if code in STAGE_LOSSES else code
        super().__init__(told, title_of(told, "Worker failed"), message)
        self.stage = STAGE


class LocalMachine:
    """The state of one session. `context_length`: its largest number of positions. Owned by one `LocalSession`."""

    def __init__(self, terms: LocalTerms, context_length: int, now_s: float) -> None:
        self._terms = terms
        budget_ms = round(terms.step_s * 1000)
        self._feed = PromptFeed(terms.key, terms.request.prompt_tokens, terms.chunking, budget_ms)
        self._tokens = TokenBook(token_terms(terms.request, context_length), terms.deadlines.ack_delay_s)
        self._prefill_done = 0
        self._events: list[RouteEvent] = []
        self._messages: list[Frame | EdgeMessage] = []
        self._keepalive_due_s = now_s + terms.deadlines.keepalive_s
        self._due_s = now_s
        self.failure: LocalRouteError | None = None
        self.is_over = False
        self._advance(now_s)

    def events(self) -> list[RouteEvent]:
        """Return the events for the reader that were added since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def messages_to_send(self) -> list[Frame | EdgeMessage]:
        """Return the messages for the worker that were queued since the last call, in order."""
        messages, self._messages = self._messages, []
        return messages

    def next_deadline_s(self) -> float | None:
        """Return the monotonic time at which `tick` must be called; None if the session is over."""
        if self.is_over:
            return None
        waits = (self._due_s, self._keepalive_due_s, self._tokens.next_deadline_s())
        return min(wait for wait in waits if wait is not None)

    def receive(self, message: EdgeMessage, now_s: float) -> None:
        """Handle a message of the worker; if it breaks the protocol, the session fails and nothing is raised."""
        if self.is_over:
            return
        try:
            self._check_edge(message)
            self._take(message, now_s)
        except MessageError as error:
            self.fail(error.code, error.message)

    def acknowledge(self, index: int, now_s: float) -> None:
        """Note that the reader has taken every token up to number `index`; ignored if the session is over.

        Raises:
            ValueError: the worker has not sent that token yet.
        """
        if not self.is_over:
            self._tokens.take(index, now_s)
            self._send_ack(now_s)

    def tick(self, now_s: float) -> None:
        """Fail the session if its deadline has passed; queue acknowledgements and keepalives that are due."""
        if self.is_over:
            return
        if now_s >= self._due_s:
            self.fail(FailureCode.STEP_TIMEOUT, "This machine's worker did not compute in time.")
            return
        self._send_ack(now_s)
        if now_s >= self._keepalive_due_s:
            self._keepalive_due_s = now_s + self._terms.deadlines.keepalive_s
            self._send(PROMPT_EDGE, Keepalive())

    def fail(self, code: str, message: str) -> None:
        """End the session with a failure; if the session is over already, nothing changes."""
        if not self.is_over:
            self.failure = LocalRouteError(code, message)
            self._end()

    def close(self) -> None:
        """End the session because the reader wants no more. Idempotent."""
        if not self.is_over:
            self._end()

    # --- inside ---

    def _check_edge(self, message: EdgeMessage) -> None:
        is_ack = isinstance(message.body, Ack)
        # An acknowledgement names the edge that it acknowledges.
        allowed = {PROMPT_EDGE} if is_ack else {PROMPT_EDGE, TOKEN_EDGE}
        if message.key != self._terms.key or message.edge not in allowed:
            raise MessageError(FailureCode.MALFORMED, "the worker spoke for another edge", message.address)

    def _take(self, message: EdgeMessage, now_s: float) -> None:
        match message.body:
            case Ack() as ack:
                if self._feed.acknowledge(ack):
                    self._advance(now_s)
            case PrefillProgress(done=done):
                self._take_progress(done, now_s)
            case TokenEvent() as event:
                self._take_token(event, now_s)
            case StageFailure(code=code, message=text):
                self.fail(code, text)
            case SessionGone():
                self.fail(FailureCode.STAGE_LOST, "This machine's worker no longer has the session.")

    def _take_progress(self, done: int, now_s: float) -> None:
        total = len(self._terms.request.prompt_tokens)
        if done > total:
            raise MessageError(FailureCode.MALFORMED, "the worker computed more than the prompt")
        if done > self._prefill_done:
            self._prefill_done = done
            self._expect_more(now_s)
            self._events.append(PrefillAdvanced(done, total))

    def _take_token(self, event: TokenEvent, now_s: float) -> None:
        if not self._feed.is_sent:
            raise MessageError(FailureCode.MALFORMED, "a token came before the prompt's end")
        token = self._tokens.receive(event)
        if token is not None:
            self._expect_more(now_s)
            self._events.append(token)
            if token.finish is not None:
                self._end()

    def _advance(self, now_s: float) -> None:
        self._expect_more(now_s)
        self._messages.extend(self._feed.take())

    def _expect_more(self, now_s: float) -> None:
        """Set the deadline for the next sign of progress: the time of a step from now.

        It is later if the tail waits for the acknowledgement of tokens.
        """
        deadlines = self._terms.deadlines
        self._due_s = now_s + self._terms.step_s + deadlines.margin_s
        if self._tokens.is_tail_waiting:
            self._due_s += deadlines.grace_s

    def _send_ack(self, now_s: float) -> None:
        ack = self._tokens.take_ack(now_s)
        if ack is not None:
            self._expect_more(now_s)
            self._send(TOKEN_EDGE, ack)

    def _send(self, edge: Edge, body: EdgeBody) -> None:
        self._messages.append(EdgeMessage.on(Address(self._terms.key, edge), body))

    def _end(self) -> None:
        self._feed.close()
        self._messages.clear()
        self.is_over = True

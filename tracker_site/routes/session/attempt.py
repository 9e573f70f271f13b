"""One attempt to run a route: what has been opened, fed, computed and received under one epoch.

Invariants: pure; nothing is sent before the relay place stands and every stage is open and fits. Messages that claim
another session or edge than they came on are refused. Source: docs/wire.md, Addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.failure_codes import FailureCode
from meshnet.frame import Ack, EdgeMessage, MessageError, PrefillProgress, TokenEvent
from meshnet.generation.progress import PrefillAdvanced
from meshnet.generation.prompt_feed import PromptFeed
from meshnet.generation.token_book import TokenBook, token_terms
from meshnet.ids import Address, Edge
from tracker_site.routes.session.contract_check import check_seams, check_stage
from tracker_site.routes.session.stage_book import StageBook

if TYPE_CHECKING:
    from meshnet.frame import EdgeBody, Frame
    from meshnet.generation.progress import TokenReceived
    from meshnet.v1 import session_pb2
    from tracker_site.routes.session.terms import RouteTerms


class Attempt:
    """State of one epoch. Times: monotonic seconds."""

    def __init__(self, terms: RouteTerms, now_s: float) -> None:
        self.terms = terms
        self.is_bound = False
        self.health = StageBook(terms.n_stages, terms.deadlines.late_s, now_s)
        self.tokens: TokenBook | None = None
        budget_ms = round(terms.step_s * 1000) * terms.n_stages
        self._feed = PromptFeed(terms.key, terms.request.prompt_tokens, terms.chunking, budget_ms)
        self._contracts: dict[int, session_pb2.BoundaryContract] = {}
        self._prefill_done = 0

    @property
    def is_ready(self) -> bool:
        """Whether rows may flow."""
        return self.is_bound and len(self._contracts) == self.terms.n_stages

    def first_unopened(self) -> int | None:
        """The first stage that has not answered; None where all have."""
        return next((stage for stage in range(self.terms.n_stages) if stage not in self._contracts), None)

    def note_opened(self, stage: int, contract: session_pb2.BoundaryContract) -> None:
        """A stage is open.

        Raises:
            ContractError: it does not fit.
        """
        check_stage(self.terms, stage, contract)
        self._contracts[stage] = contract
        if len(self._contracts) == self.terms.n_stages:
            contracts = [self._contracts[one] for one in range(self.terms.n_stages)]
            check_seams(self.terms, contracts)
            terms = token_terms(self.terms.request, contracts[-1].context_length)
            self.tokens = TokenBook(terms, self.terms.deadlines.ack_delay_s)

    def chunks(self) -> list[Frame]:
        """Prompt rows that may leave now."""
        return self._feed.take()

    def check_address(self, sender: int, message: EdgeMessage) -> None:
        """A message is about its own session and an edge between its sender and the Gateway.

        Raises:
            MessageError: it is not.
        """
        edges = {Edge(sender, GATEWAY_STAGE), Edge(GATEWAY_STAGE, sender)}
        if message.key != self.terms.key or message.edge not in edges:
            raise MessageError(FailureCode.MALFORMED, f"Stage {sender} spoke for another edge.", message.address)

    def acknowledge(self, message: EdgeMessage, ack: Ack, now_s: float) -> bool:
        """The head has computed chunks; whether that is news.

        Raises:
            MessageError: it acknowledges what was never sent, or another edge.
        """
        if message.edge != Edge(GATEWAY_STAGE, 0):
            raise MessageError(FailureCode.MALFORMED, f"An acknowledgement on {message.edge}.", message.address)
        self.health.hear([0], now_s)
        return self._feed.acknowledge(ack) > 0

    def advance(self, sender: int, progress: PrefillProgress, now_s: float) -> PrefillAdvanced | None:
        """A stage has computed prompt rows; what to tell the reader, if the whole route has.

        Raises:
            MessageError: more than there are.
        """
        total = len(self.terms.request.prompt_tokens)
        if progress.done > total:
            raise MessageError(FailureCode.MALFORMED, f"Stage {sender} computed more than the prompt.")
        self.health.hear([sender, *(entry.stage for entry in progress.residence)], now_s)
        if sender != self.terms.tail or progress.done <= self._prefill_done:
            return None
        self._prefill_done = progress.done
        return PrefillAdvanced(progress.done, total)

    def receive_token(self, sender: int, event: TokenEvent, now_s: float) -> TokenReceived | None:
        """Check a token; None for a repeat.

        Raises:
            MessageError: no honest tail sends it.
        """
        if sender != self.terms.tail or self.tokens is None:
            raise MessageError(FailureCode.EDGE_NOT_PERMITTED, f"Stage {sender} is not the tail.")
        if not self._feed.is_sent:
            raise MessageError(FailureCode.MALFORMED, "A token before the prompt's end.")
        self.health.hear([sender, *(entry.stage for entry in event.residence)], now_s)
        return self.tokens.receive(event)

    def message(self, to_stage: int, body: EdgeBody) -> EdgeMessage:
        """A message to a stage; an acknowledgement names the edge that it acknowledges."""
        edge = Edge(to_stage, GATEWAY_STAGE) if isinstance(body, Ack) else Edge(GATEWAY_STAGE, to_stage)
        return EdgeMessage.on(Address(self.terms.key, edge), body)

    def close(self) -> None:
        """Send nothing more. Idempotent."""
        self._feed.close()

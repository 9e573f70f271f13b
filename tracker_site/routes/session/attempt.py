"""One attempt to run a route: its open stages, prompt rows, progress and tokens under one epoch.

Invariants: pure; no rows are sent before the Gateway is bound on the relay and every stage is open with a fitting
boundary contract. A message is refused if it names another session, or an edge that does not connect its sender with
the Gateway. Source: docs/wire.md, Addresses.
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
    """The state of one attempt to run a route. All times are monotonic seconds."""

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
        """Whether rows may flow: the Gateway is bound and every stage is open."""
        return self.is_bound and len(self._contracts) == self.terms.n_stages

    def first_unopened(self) -> int | None:
        """Return the first stage that has not opened; None if all have."""
        return next((stage for stage in range(self.terms.n_stages) if stage not in self._contracts), None)

    def note_opened(self, stage: int, contract: session_pb2.BoundaryContract) -> None:
        """Note that a stage is open, with this boundary contract.

        Raises:
            ContractError: if the contract does not fit the plan, or if all stages are open now and do not fit together.
        """
        check_stage(self.terms, stage, contract)
        self._contracts[stage] = contract
        if len(self._contracts) == self.terms.n_stages:
            contracts = [self._contracts[one] for one in range(self.terms.n_stages)]
            check_seams(self.terms, contracts)
            terms = token_terms(self.terms.request, contracts[-1].context_length)
            self.tokens = TokenBook(terms, self.terms.deadlines.ack_delay_s)

    def chunks(self) -> list[Frame]:
        """Return the frames with prompt rows that the head's window allows to send now."""
        return self._feed.take()

    def check_address(self, sender: int, message: EdgeMessage) -> None:
        """Check that a message names this session and an edge between its sender and the Gateway.

        Raises:
            MessageError: if the message names another session or edge.
        """
        edges = {Edge(sender, GATEWAY_STAGE), Edge(GATEWAY_STAGE, sender)}
        if message.key != self.terms.key or message.edge not in edges:
            raise MessageError(FailureCode.MALFORMED, f"Stage {sender} spoke for another edge.", message.address)

    def acknowledge(self, message: EdgeMessage, ack: Ack, now_s: float) -> bool:
        """Handle the head's acknowledgement of prompt chunks; return True if it acknowledges at least one new chunk.

        Raises:
            MessageError: if it acknowledges another edge, or a chunk that was not sent.
        """
        if message.edge != Edge(GATEWAY_STAGE, 0):
            raise MessageError(FailureCode.MALFORMED, f"An acknowledgement on {message.edge}.", message.address)
        self.health.hear([0], now_s)
        return self._feed.acknowledge(ack) > 0

    def advance(self, sender: int, progress: PrefillProgress, now_s: float) -> PrefillAdvanced | None:
        """Handle a stage's report of prefill progress; return an event for the reader if the tail has advanced.

        Raises:
            MessageError: if the stage claims more rows than the prompt has.
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
        """Check a token event of a stage and return its token; None if the token came before.

        Raises:
            MessageError: if the event is not from the tail, comes before the whole prompt was sent, or is not that of
                the next token.
        """
        if sender != self.terms.tail or self.tokens is None:
            raise MessageError(FailureCode.EDGE_NOT_PERMITTED, f"Stage {sender} is not the tail.")
        if not self._feed.is_sent:
            raise MessageError(FailureCode.MALFORMED, "A token before the prompt's end.")
        self.health.hear([sender, *(entry.stage for entry in event.residence)], now_s)
        return self.tokens.receive(event)

    def message(self, to_stage: int, body: EdgeBody) -> EdgeMessage:
        """Return a message to a stage with this body.

        It names the edge from the Gateway to the stage. An acknowledgement names the edge that it acknowledges instead.
        """
        edge = Edge(to_stage, GATEWAY_STAGE) if isinstance(body, Ack) else Edge(GATEWAY_STAGE, to_stage)
        return EdgeMessage.on(Address(self.terms.key, edge), body)

    def close(self) -> None:
        """From now on, let `chunks` return nothing. Idempotent."""
        self._feed.close()

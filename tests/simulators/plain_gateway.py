"""The Gateway's part of one generation over a `BridgedRoute`: prompt chunks out, tokens in, acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import Ack, Close, EdgeMessage, Frame, Phase, PrefillProgress, StageFailure, TokenEvent
from meshnet.ids import Address, Edge
from meshnet.session import SendingEdge, Window
from meshnet.token_window import GenerationTerms, TokenReceiver
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.route_terms import WINDOW_BYTES, RouteTerms


class RouteFailedError(Exception):
    """A stage gave up."""

    def __init__(self, failure: StageFailure) -> None:
        super().__init__(failure.code, failure.stage)
        self.failure = failure


@dataclass
class Answer:
    """What came of a generation."""

    tokens: list[TokenEvent] = field(default_factory=list)
    progress: list[PrefillProgress] = field(default_factory=list)

    @property
    def token_ids(self) -> list[int]:
        return [event.token_id for event in self.tokens]


class PlainGateway:
    """Drives one session; one at a time on a route."""

    def __init__(
        self, route: BridgedRoute, terms: RouteTerms, *, acknowledges: bool = True, ack_every: int = 1
    ) -> None:
        """Acknowledge every so many tokens, and the last."""
        self.answer = Answer()
        self._route = route
        self._terms = terms
        self._acknowledges = acknowledges
        self._ack_every = ack_every
        self._to_head = SendingEdge(Window(terms.window_frames, WINDOW_BYTES))
        self._tail = len(route.workers) - 1
        self._chunks = self._prompt_chunks()
        contract = route.contracts[0]
        self._receiver = TokenReceiver(
            GenerationTerms(
                prompt_tokens=len(terms.prompt),
                max_tokens=terms.max_tokens,
                end_tokens=set(terms.end_tokens),
                vocab_size=contract.vocab_size,
                context_length=contract.context_length,
                committed=len(terms.committed),
            )
        )

    async def generate(self) -> Answer:
        """Send the prompt and take tokens until the finish.

        Raises:
            RouteFailedError: a stage gave up.
            MessageError: a stage sent what does not follow.
            TimeoutError: nothing came.
        """
        while not self.is_finished:
            await self.send_prompt()
            await self.take(await self._route.receive())
        return self.answer

    @property
    def is_finished(self) -> bool:
        """Whether the last token came."""
        return self._receiver.is_finished

    async def send_prompt(self) -> None:
        """Send the chunks that the head has credit for."""
        while self._chunks and self._to_head.has_credit():
            chunk = self._chunks.pop(0)
            await self._route.send_frame(replace(chunk, seq=self._to_head.send()))

    async def until_failure(self) -> StageFailure:
        """Take messages until a stage gives up.

        Raises:
            TimeoutError: nothing came.
        """
        while True:
            try:
                await self.take(await self._route.receive())
            except RouteFailedError as failed:
                return failed.failure

    async def take(self, message: EdgeMessage) -> None:
        """Take one message of a stage; what is of another session is not for this gateway."""
        if message.key != self._terms.key:
            return
        match message.body:
            case Ack():
                self._to_head.acknowledge(message.body)
            case PrefillProgress():
                self.answer.progress.append(message.body)
            case StageFailure():
                raise RouteFailedError(message.body)
            case TokenEvent():
                if self._receiver.receive(message.body) is not None:
                    self.answer.tokens.append(message.body)
                is_due = self.is_finished or len(self.answer.tokens) % self._ack_every == 0
                if self._acknowledges and is_due:
                    await self.acknowledge()

    async def acknowledge(self) -> None:
        """Tell the tail what was taken."""
        ack = self._receiver.ack()
        if ack is not None:
            edge = Edge(self._tail, GATEWAY_STAGE)
            await self._route.send_edge(EdgeMessage.on(Address(self._terms.key, edge), ack), self._tail)

    async def close(self) -> None:
        """End the session on every stage."""
        for stage in range(len(self._route.workers)):
            message = EdgeMessage.on(Address(self._terms.key, Edge(GATEWAY_STAGE, stage)), Close("done"))
            await self._route.send_edge(message, stage)

    def _prompt_chunks(self) -> list[Frame]:
        """The prompt (with what was committed) in frames that have no number yet."""
        terms, tokens = self._terms, (*self._terms.prompt, *self._terms.committed)
        return [
            Frame(
                session=terms.key.session,
                epoch=terms.key.epoch,
                from_stage=GATEWAY_STAGE,
                to_stage=0,
                seq=0,
                phase=Phase.PREFILL,
                position=at,
                rows=len(tokens[at : at + terms.chunk_rows]),
                prompt_end=at + terms.chunk_rows >= len(tokens),
                token_ids=tokens[at : at + terms.chunk_rows],
                budget_ms=terms.step_deadline_ms,
            )
            for at in range(0, len(tokens), terms.chunk_rows)
        ]

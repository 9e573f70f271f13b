"""One generation from its hold to its settlement.

Invariants: a task of the generation places the hold, does the work and settles, even if the client has gone. The work
is to open a route and read its tokens; `cancel` stops it, never the settlement. The route is closed before the hold is
settled, and both happen once. The reader gets exactly one `Finished` or `Failed`. A `Generation` belongs to one event
loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from meshnet.errors import MeshnetError, RouteError, describe_unforeseen
from meshnet.failure_codes import FailureCode
from meshnet.generation.telemetry_board import TelemetryBoard
from meshnet.generation.telemetry_pulse import TelemetryPulse
from meshnet.openai.events import Failed, Finished, FinishReason, TelemetryUpdate, Usage
from meshnet.openai.telemetry import Phase, Telemetry
from tracker_site.gateway.hold import Hold
from tracker_site.gateway.outlet import Outlet
from tracker_site.gateway.records import Record
from tracker_site.gateway.route_reader import RouteReader
from tracker_site.gateway.settlement import Bill, Counts, Ending, settle_bill

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from meshnet.openai.events import GenerationEvent
    from meshnet.openai.specification import GenerationSpec
    from tracker_site.gateway.admission import Admission
    from tracker_site.gateway.parts import Parts
    from tracker_site.gateway.ports import Caller

logger = logging.getLogger(__name__)


class Generation:
    """One request that is being answered."""

    def __init__(
        self,
        generation_id: str,
        caller: Caller,
        spec: GenerationSpec,
        admission: Admission,
        parts: Parts,
        on_answered: Callable[[], None],
    ) -> None:
        """Make a generation that calls `on_answered` before its client can know that the answer has ended."""
        self.id = generation_id
        self.caller = caller
        self.spec = spec
        self._admission = admission
        self._parts = parts
        self._on_answered = on_answered
        self._hold = Hold(parts.ledger, generation_id)
        self._board = TelemetryBoard(generation_id, parts.clock_s())
        self._board.set_prompt(len(admission.request.prompt_tokens))
        self._outlet = Outlet(parts.limits.queued_tokens, self._acknowledge)
        self._reader = RouteReader(parts, admission, spec.stop, self._board, self._outlet)
        self._cancel_reason: str | None = None
        self._routed = asyncio.Event()
        self._route_snapshot: Telemetry | None = None
        self._last: Finished | Failed | None = None
        self._work: asyncio.Task[FinishReason] | None = None
        self._loop = asyncio.get_running_loop()
        self._held: asyncio.Future[None] = self._loop.create_future()

    @property
    def usage(self) -> Usage:
        """The numbers of prompt tokens and of generated tokens received so far."""
        return Usage(len(self._admission.request.prompt_tokens), self._reader.tokens)

    @property
    def first_token_ms(self) -> int | None:
        """Milliseconds from the generation's start to its first token; None if no token has come yet."""
        return self._board.first_token_ms

    def snapshot(self) -> Telemetry:
        """Return the present telemetry."""
        return self._board.snapshot(self._parts.clock_s())

    async def held(self) -> None:
        """Wait until the hold is placed. If the waiting task is cancelled, so is the generation.

        Raises:
            MeshnetError: the hold could not be placed, and the generation has ended.
        """
        try:
            await asyncio.shield(self._held)
        except asyncio.CancelledError:
            self.cancel("client_disconnected")
            raise

    async def refusal(self, timeout_s: float) -> MeshnetError | None:
        """Wait until the route is open or the generation has ended, at most `timeout_s`.

        Returns:
            The error, if the generation failed without a route; otherwise None.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._routed.wait()
        except TimeoutError:
            return None
        except asyncio.CancelledError:
            self.cancel("client_disconnected")
            raise
        return self._last.error if isinstance(self._last, Failed) and not self._reader.stages else None

    def cancel(self, reason: str) -> None:
        """Stop the work; if the work has ended or is already cancelled, nothing changes."""
        if self._cancel_reason is None:
            self._cancel_reason = reason
            if self._work is not None:
                self._work.cancel()

    def cancel_from_any_thread(self, reason: str) -> None:
        """Do the same as `cancel`, called from any thread."""
        self._loop.call_soon_threadsafe(self.cancel, reason)

    async def events(self) -> AsyncGenerator[GenerationEvent, None]:
        """Yield all events in order, for the one reader; if the reader stops early, the generation is cancelled."""
        pulse = TelemetryPulse()
        try:
            yield self._first_update(pulse)
            while True:
                event = await self._next_event(pulse)
                yield event
                if isinstance(event, Finished | Failed):
                    return
        finally:
            self.cancel("client_disconnected")

    def _first_update(self, pulse: TelemetryPulse) -> TelemetryUpdate:
        """Return the telemetry of the moment when the route was opened, or of this moment if it is not open."""
        shown = self._route_snapshot or self.snapshot()
        if shown.phase is self._board.phase:
            pulse.show(self._board, self._parts.clock_s())
        return TelemetryUpdate(shown)

    async def _next_event(self, pulse: TelemetryPulse) -> GenerationEvent:
        while True:
            now_s = self._parts.clock_s()
            wait_s = pulse.wait_s(self._board, now_s)
            # Telemetry of the end waits until the text before it was delivered.
            if wait_s <= 0 and not (self._board.is_over and self._outlet.has_waiting):
                pulse.show(self._board, now_s)
                return TelemetryUpdate(self.snapshot())
            delivery = self._outlet.take()
            if delivery is not None and delivery.delta:
                return delivery.delta
            if delivery is None and (last := self._outlet.last) is not None:
                return last
            if delivery is None:
                await self._outlet.wait(wait_s)

    async def live(self) -> None:
        """Place the hold, do the work, settle and store the record; the body of the generation's task."""
        try:
            amount_micros, limits = self._admission.hold_micros, self._parts.limits
            await self._hold.place(self.caller.user_id, amount_micros, limits.hold_s)
        except MeshnetError as refusal:
            self._refuse(refusal)
            return
        except BaseException:
            self._refuse(_internal_error())
            raise
        self._held.set_result(None)
        last, ending = await self._work_to_the_end()
        self._last = last
        self._on_answered()
        self._routed.set()
        self._outlet.finish(last)
        counts = self._counts(ending)
        bill = settle_bill(ending, counts, self._admission.model.prices, self._reader.stages)
        await self._hold.settle(bill.charge_micros, bill.shares, self._parts.limits.settle_s)
        await self._parts.records.store(self._record(last, ending, counts, bill))

    def _refuse(self, refusal: MeshnetError) -> None:
        self._on_answered()
        self._held.set_exception(refusal)
        self._held.exception()  # marks it as seen: if the caller has gone, nobody else fetches it

    async def _work_to_the_end(self) -> tuple[Finished | Failed, Ending]:
        """Run the work and return its last event and its ending; no exception of the work leaves this function."""
        self._work = asyncio.create_task(self._reader.run(self._note_change), name=self.id)
        if self._cancel_reason is not None:
            self._work.cancel()
        try:
            async with asyncio.timeout(self._parts.limits.generation_s):
                reason = await self._work
        except asyncio.CancelledError:
            return self._failed(_cancelled(self._cancel_reason or "site_stopping")), Ending.CANCELLED
        except TimeoutError:
            message = f"The generation took longer than {self._parts.limits.generation_s:g} s."
            return self._failed(RouteError("generation_timeout", "Too long", message)), Ending.FAILED
        except MeshnetError as error:
            if error.code == FailureCode.GATEWAY_LOST and self._outlet.is_behind:
                return self._failed(_cancelled("client_too_slow")), Ending.CANCELLED
            return self._failed(error), Ending.FAILED
        except Exception as error:  # noqa: BLE001 - logged, without its message
            # Log only the types and lines of the error, because its message may quote the prompt or the answer.
            logger.error("generation %s failed: %s", self.id, describe_unforeseen(error))
            return self._failed(_internal_error()), Ending.FAILED
        self._board.enter(Phase.DONE, self._parts.clock_s())
        return Finished(reason, self.usage, self.snapshot()), Ending.FINISHED

    def _note_change(self) -> None:
        if self._reader.stages and not self._routed.is_set():
            self._route_snapshot = self.snapshot()
            self._routed.set()
        self._outlet.wake()

    def _acknowledge(self, tokens: int) -> None:
        self._reader.acknowledge(tokens)

    def _failed(self, error: MeshnetError) -> Failed:
        self._board.fail(error, self._parts.clock_s())
        self._reader.flush()
        return Failed(error, self.usage, self.snapshot())

    def _counts(self, ending: Ending) -> Counts:
        """Return the token counts for the bill.

        If the generation was cancelled, only tokens that the client has read count as delivered; otherwise all tokens
        that arrived from the route do.
        """
        is_cancelled = ending is Ending.CANCELLED
        return Counts(
            prompt_tokens=self.usage.prompt_tokens,
            prefill_done=self._board.prefill_done,
            delivered_tokens=self._outlet.delivered_tokens if is_cancelled else self._reader.tokens,
        )

    def _record(self, last: Finished | Failed, ending: Ending, counts: Counts, bill: Bill) -> Record:
        return Record(
            generation_id=self.id,
            user_id=self.caller.user_id,
            model_name=self._admission.model.name,
            face=self.spec.face,
            ending=ending,
            finish_reason=last.reason if isinstance(last, Finished) else "",
            prompt_tokens=counts.prompt_tokens,
            max_tokens=self._admission.request.max_tokens,
            completion_tokens=counts.delivered_tokens,
            charge_micros=bill.charge_micros,
            first_token_ms=self._board.first_token_ms,
            elapsed_ms=last.telemetry.elapsed_ms,
            tokens_per_s=self._board.mean_tokens_per_s,
            failure=last.telemetry.failure,
            stages=self._reader.stages,
            shares=bill.shares,
        )


_CANCEL_MESSAGES = {
    "client_disconnected": "The client disconnected.",
    "client_too_slow": "The client did not read the answer fast enough.",
    "site_stopping": "The site is being restarted; try again in a moment.",
}


def _cancelled(reason: str) -> MeshnetError:
    return MeshnetError(reason, "Cancelled", _CANCEL_MESSAGES.get(reason, "The generation was cancelled."))


def _internal_error() -> MeshnetError:
    return MeshnetError(
        "internal_error", "Internal error", "The site failed and ended the generation. Try again later."
    )

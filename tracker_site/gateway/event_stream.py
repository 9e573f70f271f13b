"""A generation as a stream of server-sent events.

Invariants: telemetry comes as comments, or as chunks where the client asked for them; a failure is one error event,
then the stream ends without `[DONE]`. Whoever drops the stream cancels the generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import StreamingHttpResponse

from meshnet.openai.errors import describe_error
from meshnet.openai.events import Failed, Finished, TelemetryUpdate, TextDelta
from meshnet.openai.server_sent_events import CONTENT_TYPE, DONE, data_event, error_event, telemetry_comment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from meshnet.openai.events import GenerationEvent
    from meshnet.openai.response_writer import ResponseWriter
    from tracker_site.gateway.generation import Generation


class EventStream:
    """The body of a streamed answer; Django iterates it and closes it."""

    def __init__(self, generation: Generation, writer: ResponseWriter) -> None:
        self._generation = generation
        self._writer = writer
        self._include_telemetry = generation.spec.delivery.include_telemetry
        self._is_open = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks()

    def close(self) -> None:
        """Called by Django when the response is over, from a thread of its own."""
        self._generation.cancel_from_any_thread("client_disconnected")

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        events = self._generation.events()
        try:
            async for event in events:
                for chunk in self._write(event):
                    yield chunk
        finally:
            await events.aclose()

    def _write(self, event: GenerationEvent) -> Iterator[bytes]:
        match event:
            case TelemetryUpdate(telemetry=telemetry) if self._include_telemetry:
                yield data_event(self._writer.telemetry(telemetry))
            case TelemetryUpdate(telemetry=telemetry):
                yield telemetry_comment(telemetry)
            case TextDelta():
                yield from self._opening()
                yield data_event(self._writer.delta(event))
            case Finished():
                yield from self._opening()
                yield from map(data_event, self._writer.closing(event))
                yield DONE
            case Failed(error=error):
                yield error_event(describe_error(error).body)

    def _opening(self) -> Iterator[bytes]:
        """Once, before the first text."""
        if not self._is_open:
            self._is_open = True
            yield from map(data_event, self._writer.opening())


def stream_reply(generation: Generation, writer: ResponseWriter) -> StreamingHttpResponse:
    """The response of a streamed generation."""
    response = StreamingHttpResponse(EventStream(generation, writer), content_type=CONTENT_TYPE)
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"  # Proxies that buffer would hold tokens back.
    return response

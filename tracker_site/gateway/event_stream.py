"""A generation as a stream of server-sent events.

Invariant: whoever drops the stream cancels the generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import StreamingHttpResponse

from meshnet.openai.server_sent_events import CONTENT_TYPE
from meshnet.openai.stream_writer import StreamWriter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from meshnet.openai.response_writer import ResponseWriter
    from tracker_site.gateway.generation import Generation


class EventStream:
    """The body of a streamed answer; Django iterates it and closes it."""

    def __init__(self, generation: Generation, writer: ResponseWriter) -> None:
        self._generation = generation
        self._writer = StreamWriter(writer, include_telemetry=generation.spec.delivery.include_telemetry)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks()

    def close(self) -> None:
        """Called by Django when the response is over, from a thread of its own."""
        self._generation.cancel_from_any_thread("client_disconnected")

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        events = self._generation.events()
        try:
            async for event in events:
                for chunk in self._writer.write(event):
                    yield chunk
        finally:
            await events.aclose()


def stream_reply(generation: Generation, writer: ResponseWriter) -> StreamingHttpResponse:
    """The response of a streamed generation."""
    response = StreamingHttpResponse(EventStream(generation, writer), content_type=CONTENT_TYPE)
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"  # Proxies that buffer would hold tokens back.
    return response

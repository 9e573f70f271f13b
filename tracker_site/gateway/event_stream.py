"""Streams a generation to its client as server-sent events.

Invariant: if the stream is closed before its end, the generation is cancelled.
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
    """The body of a streamed answer, which Django iterates and then closes."""

    def __init__(self, generation: Generation, writer: ResponseWriter) -> None:
        self._generation = generation
        self._writer = StreamWriter(writer, include_telemetry=generation.spec.delivery.include_telemetry)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks()

    def close(self) -> None:
        """Cancel the generation if it still runs. Django calls this at the end of the response, in another thread."""
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
    """Return the response that streams a generation."""
    response = StreamingHttpResponse(EventStream(generation, writer), content_type=CONTENT_TYPE)
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"  # asks proxies not to buffer, which would delay tokens
    return response

"""Runs a generation and turns it into an HTTP response, streamed or whole, for the API and the chat.

Invariant: if a generation fails before its response begins, the HTTP status tells it. Therefore a stream begins only
when its route is open or after REFUSAL_WAIT_S. A later failure is an error event in the stream.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from meshnet.openai.events import Failed, Finished, TextDelta
from meshnet.openai.response_writer import Heading, ResponseWriter
from tracker_site.gateway.composition import composition
from tracker_site.gateway.event_stream import stream_reply
from tracker_site.gateway.replies import json_reply

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase

    from meshnet.openai.specification import GenerationSpec
    from tracker_site.gateway.generation import Generation
    from tracker_site.gateway.ports import Caller

# A stream waits this long before it begins. Planning takes milliseconds, so most refusals are known by then, and the
# delay is too short to be noticed.
REFUSAL_WAIT_S: Final = 0.025


async def answer(caller: Caller, spec: GenerationSpec) -> HttpResponseBase:
    """Run a generation and return its response.

    Raises:
        MeshnetError: the generation was refused, or failed before any part of the response was sent.
    """
    generation = await composition.gateway().start(caller, spec)
    heading = Heading(id=generation.id, created=int(time.time()), model=spec.model)
    writer = ResponseWriter(heading, spec)
    response = await (_stream if spec.delivery.stream else _whole)(generation, writer)
    response["X-Request-Id"] = generation.id
    return response


async def _stream(generation: Generation, writer: ResponseWriter) -> HttpResponseBase:
    refusal = await generation.refusal(REFUSAL_WAIT_S)
    if refusal is not None:
        raise refusal
    return stream_reply(generation, writer)


async def _whole(generation: Generation, writer: ResponseWriter) -> HttpResponseBase:
    deltas: list[TextDelta] = []
    async for event in generation.events():
        match event:
            case TextDelta():
                deltas.append(event)
            case Finished():
                return json_reply(writer.whole(deltas, event))
            case Failed(error=error):
                raise error
    raise AssertionError("a generation ended without its last event")

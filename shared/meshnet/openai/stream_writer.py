"""Turns the events of a generation into server-sent events.

Invariants: telemetry is sent as comments, or as chunks if the client asked for them. A failure is one error event, and
the stream then ends without `[DONE]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.openai.errors import describe_error
from meshnet.openai.events import Failed, Finished, TelemetryUpdate, TextDelta
from meshnet.openai.server_sent_events import DONE, data_event, error_event, telemetry_comment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.openai.events import GenerationEvent
    from meshnet.openai.response_writer import ResponseWriter


class StreamWriter:
    """Writes the server-sent events of one streamed answer."""

    def __init__(self, writer: ResponseWriter, *, include_telemetry: bool) -> None:
        self._writer = writer
        self._include_telemetry = include_telemetry
        self._is_open = False

    def write(self, event: GenerationEvent) -> Iterator[bytes]:
        """Yield the server-sent events, as bytes, into which one event of the generation is turned."""
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
        """Yield the opening chunks at the first call, and nothing later."""
        if not self._is_open:
            self._is_open = True
            yield from map(data_event, self._writer.opening())

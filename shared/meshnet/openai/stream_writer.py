"""From the events of a generation to the bytes of a stream.

Invariants: telemetry comes as comments, or as chunks where the client asked for them; a failure is one error event,
and the stream ends without `[DONE]`.
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
    """Writes one stream."""

    def __init__(self, writer: ResponseWriter, *, include_telemetry: bool) -> None:
        self._writer = writer
        self._include_telemetry = include_telemetry
        self._is_open = False

    def write(self, event: GenerationEvent) -> Iterator[bytes]:
        """The server-sent events of one event, in order."""
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

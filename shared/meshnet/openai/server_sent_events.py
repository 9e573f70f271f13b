"""Writes server-sent events that OpenAI's clients can read.

Invariants: every event is one `data:` line, and no payload contains a newline. Comments begin with a
colon; clients that follow the standard ignore them. Source: the HTML standard, 9.2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from meshnet.openai.errors import ErrorBody
    from meshnet.openai.objects import ResponseObject
    from meshnet.openai.telemetry import Telemetry

DONE: Final = b"data: [DONE]\n\n"
CONTENT_TYPE: Final = "text/event-stream"


def data_event(response: ResponseObject) -> bytes:
    """Return a response object as one event."""
    return f"data: {response.to_json()}\n\n".encode()


def telemetry_comment(telemetry: Telemetry) -> bytes:
    """Return telemetry as a comment, which ordinary clients ignore."""
    return f": meshnet {telemetry.model_dump_json()}\n\n".encode()


def error_event(body: ErrorBody) -> bytes:
    """Return the event that ends the stream of a failed generation."""
    return f"data: {body.model_dump_json()}\n\n".encode()

"""Server-sent events, as OpenAI's clients read them.

Invariants: every event is one `data:` line; comments are ignored by every client that follows the standard; no payload
holds a newline. Source: the HTML standard, 9.2.6.
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
    """A chunk of the answer."""
    return f"data: {response.to_json()}\n\n".encode()


def telemetry_comment(telemetry: Telemetry) -> bytes:
    """Telemetry for those who look, invisible to everyone else."""
    return f": meshnet {telemetry.model_dump_json()}\n\n".encode()


def error_event(body: ErrorBody) -> bytes:
    """The failure of a stream that has begun; nothing follows it."""
    return f"data: {body.model_dump_json()}\n\n".encode()

"""The body of a request, within limits.

Invariant: a body that is too large is refused by its declared length before it is touched, and by its real one before
it is parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.openai.errors import RequestError

if TYPE_CHECKING:
    from django.http import HttpRequest

# Twice the prompt's own limit: JSON may escape every other character.
BODY_MAX_BYTES: Final = 4 * 1024 * 1024


def read_json_body(request: HttpRequest) -> bytes:
    """The raw bytes of a JSON body.

    Raises:
        RequestError: 415, it is not declared as JSON; 413, it is too large.
    """
    if request.content_type != "application/json":
        message = "Send the request as 'Content-Type: application/json'."
        raise RequestError("unsupported_media_type", message, status=415)
    declared = request.headers.get("Content-Length", "")
    body = b"" if declared.isdigit() and int(declared) > BODY_MAX_BYTES else request.read(BODY_MAX_BYTES + 1)
    if len(body) > BODY_MAX_BYTES or (not body and declared not in ("", "0")):
        message = f"The request is too large; at most {BODY_MAX_BYTES} bytes are taken."
        raise RequestError("request_too_large", message, status=413)
    return body

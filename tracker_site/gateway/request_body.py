"""Reads the body of a request, up to a largest size.

Invariant: if the declared length is too large, the body is not read. If the body itself is too large, it is not parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.openai.http_refusals import BODY_MAX_BYTES, JSON_TYPE, not_json, too_large

if TYPE_CHECKING:
    from django.http import HttpRequest


def read_json_body(request: HttpRequest) -> bytes:
    """Return the raw bytes of a JSON body.

    Raises:
        RequestError: status 415 if the body is not declared as JSON; status 413 if it is too large.
    """
    if request.content_type != JSON_TYPE:
        raise not_json()
    declared = request.headers.get("Content-Length", "")
    body = b"" if declared.isdigit() and int(declared) > BODY_MAX_BYTES else request.read(BODY_MAX_BYTES + 1)
    if len(body) > BODY_MAX_BYTES or (not body and declared not in ("", "0")):
        raise too_large()
    return body

"""Answers to requests that Django refuses before any view sees them.

Invariant: under `/v1` every refusal is an OpenAI error object, even if the request names another host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.views import defaults

from meshnet.openai.errors import RequestError
from tracker_site.gateway.replies import error_reply

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

API_PREFIX: Final = "/v1/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400 to a request whose Host is not allowed, or whose headers Django refuses."""
    if not request.path.startswith(API_PREFIX):
        return defaults.bad_request(request, exception)
    message = "This site does not answer to the host in the URL: correct it, or ask the administrator to allow it."
    return error_reply(RequestError("bad_request", message))

"""Requests that are refused before any view sees them.

Invariant: under `/v1` every answer is an error object, also where the request names another site.
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
    """400: a Host that is not ours, or headers that Django refuses."""
    if not request.path.startswith(API_PREFIX):
        return defaults.bad_request(request, exception)
    message = "The request is not for this site: look at the URL's host, or ask the site's administrator to allow it."
    return error_reply(RequestError("bad_request", message))

"""The chat page and the stream of its answers.

Invariant: the stream takes the same request body as the OpenAI API and answers with the same events, telemetry
included. It authenticates by the user's sign-in in place of an API key, so it also needs a CSRF token.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.views.decorators.http import require_safe

from meshnet.errors import MeshnetError, describe_unforeseen
from meshnet.openai.errors import RequestError
from meshnet.openai.parsing import parse_chat_request
from meshnet.openai.specification import DeliverySpec
from tracker_site.catalog.models import Model
from tracker_site.gateway.answering import answer
from tracker_site.gateway.ports import Caller
from tracker_site.gateway.replies import error_reply
from tracker_site.gateway.request_body import read_json_body

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase

logger = logging.getLogger(__name__)

# Allow only the site's own files. If model output ever got past the page's escaping, it could not load or run anything.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
DELIVERY: Final = DeliverySpec(stream=True, include_usage=True, include_telemetry=True)


@require_safe
@login_required
def page(request: HttpRequest) -> HttpResponse:
    """Show the chat page with the offered models."""
    models = Model.objects.filter(is_listed=True).values("name", "context_length", "prompt_micros", "completion_micros")
    response = render(request, "chat/page.html", {"models": list(models)})
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return response


async def stream(request: HttpRequest) -> HttpResponseBase:
    """Answer `POST` with a chat completion for the signed-in user, always as a stream."""
    try:
        return await _stream(request)
    except MeshnetError as error:
        return error_reply(error)
    except Exception as error:  # noqa: BLE001 - logged, without its message
        # Log only the types and lines of the error, because its message may quote the request.
        logger.error("the chat stream failed: %s", describe_unforeseen(error))
        return error_reply(MeshnetError("internal_error", "Internal error", "The site failed. Try again later."))


async def _stream(request: HttpRequest) -> HttpResponseBase:
    if request.method != "POST":
        raise RequestError("method_not_allowed", "The chat stream answers only POST.", status=405)
    user = await request.auser()
    if not user.is_authenticated:
        raise RequestError("not_signed_in", "Your session has ended; sign in again.", status=401)
    spec = parse_chat_request(read_json_body(request))
    return await answer(Caller(user_id=user.pk), replace(spec, delivery=DELIVERY))

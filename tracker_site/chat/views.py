"""The page and its stream.

Invariant: the stream takes the API's own request body and answers with the API's own events, telemetry included; only
the key is another: a session instead of a secret, so that a CSRF token is needed too.
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

# Nothing but our own files: model output that slipped through the page's escaping could still load and run nothing.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
DELIVERY: Final = DeliverySpec(stream=True, include_usage=True, include_telemetry=True)


@require_safe
@login_required
def page(request: HttpRequest) -> HttpResponse:
    """The chat page."""
    models = Model.objects.filter(is_listed=True).values("name", "context_length", "prompt_micros", "completion_micros")
    response = render(request, "chat/page.html", {"models": list(models)})
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return response


async def stream(request: HttpRequest) -> HttpResponseBase:
    """`POST`: a chat completion for the signed-in user, always streamed."""
    try:
        return await _stream(request)
    except MeshnetError as error:
        return error_reply(error)
    except Exception as error:  # noqa: BLE001 - logged, in fewer words
        # By types and places alone: the words of an error may quote the request.
        logger.error("the chat stream failed: %s", describe_unforeseen(error))
        return error_reply(MeshnetError("internal_error", "Internal error", "The site failed."))


async def _stream(request: HttpRequest) -> HttpResponseBase:
    if request.method != "POST":
        raise RequestError("method_not_allowed", "Not allowed here; use POST.", status=405)
    user = await request.auser()
    if not user.is_authenticated:
        raise RequestError("not_signed_in", "Sign in again; your session is over.", status=401)
    spec = parse_chat_request(read_json_body(request))
    return await answer(Caller(user_id=user.pk), replace(spec, delivery=DELIVERY))

"""Objects and errors as HTTP responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpResponse

from meshnet.openai.errors import describe_error

if TYPE_CHECKING:
    from meshnet.errors import MeshnetError
    from meshnet.openai.objects import ResponsePart

JSON = "application/json"


def json_reply(answer: ResponsePart) -> HttpResponse:
    """An answer."""
    return HttpResponse(answer.to_json(), content_type=JSON)


def error_reply(error: MeshnetError) -> HttpResponse:
    """An error object with the status that the one table gives it."""
    reply = describe_error(error)
    response = HttpResponse(reply.body.model_dump_json(), content_type=JSON, status=reply.status)
    if reply.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response

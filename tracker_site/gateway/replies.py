"""Turns OpenAI objects and errors into HTTP responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpResponse

from meshnet.openai.errors import describe_error

if TYPE_CHECKING:
    from meshnet.errors import MeshnetError
    from meshnet.openai.objects import ResponsePart

JSON = "application/json"


def json_reply(answer: ResponsePart) -> HttpResponse:
    """Return a response with the object as JSON."""
    return HttpResponse(answer.to_json(), content_type=JSON)


def error_reply(error: MeshnetError) -> HttpResponse:
    """Return a response with the OpenAI error object and the status that `describe_error` gives the error."""
    reply = describe_error(error)
    response = HttpResponse(reply.body.model_dump_json(), content_type=JSON, status=reply.status)
    if reply.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response

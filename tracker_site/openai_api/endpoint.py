"""Wraps every endpoint: checks the HTTP method and the API key, and turns errors into OpenAI error objects.

Invariant: an endpoint's function gets only requests of its methods with a valid key. It may raise any `MeshnetError`.
"""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

from django.views.decorators.csrf import csrf_exempt

from meshnet.errors import MeshnetError, describe_unforeseen
from meshnet.openai import http_refusals
from meshnet.openai.errors import RequestError
from tracker_site.accounts.authentication import authenticate_key_async, bearer_secret
from tracker_site.gateway.ports import Caller
from tracker_site.gateway.replies import error_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

logger = logging.getLogger(__name__)

Arguments = ParamSpec("Arguments")
Endpoint: TypeAlias = "Callable[Concatenate[HttpRequest, Caller, Arguments], Coroutine[Any, Any, HttpResponseBase]]"
View: TypeAlias = "Callable[..., Coroutine[Any, Any, HttpResponseBase]]"


def endpoint(*methods: str) -> Callable[[Endpoint[Arguments]], View]:
    """Return a decorator that turns a function of the request and its caller into a view for the given HTTP methods."""

    def decorate(function: Endpoint[Arguments]) -> View:
        @csrf_exempt
        @wraps(function)
        async def view(request: HttpRequest, *args: Arguments.args, **kwargs: Arguments.kwargs) -> HttpResponseBase:
            if request.method not in methods:
                return _wrong_method(methods)
            try:
                return await function(request, await authenticate(request), *args, **kwargs)
            except MeshnetError as error:
                return error_reply(error)
            except Exception as error:  # noqa: BLE001 - logged, without its message
                # Log only the types and lines of the error, because its message may quote the request.
                logger.error("%s %s failed: %s", request.method, request.path, describe_unforeseen(error))
                return error_reply(
                    MeshnetError("internal_error", "Internal error", "The site failed. Try again later.")
                )

        return view

    return decorate


async def authenticate(request: HttpRequest) -> Caller:
    """Return the caller that the request's API key belongs to.

    Raises:
        RequestError: status 401: `missing_api_key`, or `invalid_api_key` if the key is unknown or revoked, or its user
            is inactive.
    """
    secret = bearer_secret(request.headers)
    if secret is None:
        message = "No API key was sent; send one as 'Authorization: Bearer KEY'."
        raise RequestError("missing_api_key", message, status=401)
    key = await authenticate_key_async(secret)
    if key is None:
        raise RequestError("invalid_api_key", "The API key is wrong or revoked; send another.", status=401)
    return Caller(user_id=key.user_id)


@csrf_exempt
async def unknown_url(request: HttpRequest) -> HttpResponseBase:
    """Answer 404 to a path under `/v1` that no endpoint has."""
    return error_reply(http_refusals.unknown_url(request.method or "", request.path))


def _wrong_method(methods: tuple[str, ...]) -> HttpResponseBase:
    response = error_reply(http_refusals.wrong_method(methods))
    response["Allow"] = ", ".join(methods)
    return response

"""The endpoints of the OpenAI API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from meshnet.openai.errors import RequestError
from meshnet.openai.http_refusals import PARSE_INLINE_BYTES
from meshnet.openai.objects import ModelList, ModelObject
from meshnet.openai.parsing import parse_chat_request, parse_completion_request
from tracker_site.gateway.answering import answer
from tracker_site.gateway.composition import composition
from tracker_site.gateway.record_store import find_record
from tracker_site.gateway.replies import json_reply
from tracker_site.gateway.request_body import read_json_body
from tracker_site.openai_api.endpoint import endpoint
from tracker_site.openai_api.generation_object import live_object, stored_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from meshnet.openai.specification import GenerationSpec
    from tracker_site.gateway.ports import Caller, ServedModel


@endpoint("POST")
async def chat_completions(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """Answer `POST /v1/chat/completions`."""
    return await answer(caller, await _parse(request, parse_chat_request))


@endpoint("POST")
async def completions(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """Answer `POST /v1/completions`."""
    return await answer(caller, await _parse(request, parse_completion_request))


@endpoint("GET", "HEAD")
async def models(_request: HttpRequest, _caller: Caller) -> HttpResponseBase:
    """Answer `GET /v1/models` with all models that the site offers."""
    listed = await composition.gateway().models.all_listed()
    return json_reply(ModelList(object="list", data=[_model_object(model) for model in listed]))


@endpoint("GET", "HEAD")
async def model(_request: HttpRequest, _caller: Caller, name: str) -> HttpResponseBase:
    """Answer `GET /v1/models/{name}` with the offered model of this name."""
    return json_reply(_model_object(await composition.gateway().find_model(name)))


@endpoint("GET", "HEAD")
async def generation(_request: HttpRequest, caller: Caller, generation_id: str) -> HttpResponseBase:
    """Answer `GET /v1/generations/{id}` with one of the caller's own generations, running or ended."""
    live = composition.gateway().live.get(generation_id)
    if live is not None and live.caller == caller:
        return json_reply(live_object(live))
    record = await find_record(generation_id, caller.user_id)
    if record is None:
        raise RequestError("generation_not_found", "You have no generation with this id.", status=404)
    return json_reply(stored_object(record))


async def _parse(request: HttpRequest, parse: Callable[[bytes], GenerationSpec]) -> GenerationSpec:
    body = read_json_body(request)
    return parse(body) if len(body) <= PARSE_INLINE_BYTES else await asyncio.to_thread(parse, body)


def _model_object(served: ServedModel) -> ModelObject:
    return ModelObject(
        id=served.name,
        object="model",
        created=served.created_s,
        owned_by="meshnet",
        context_length=served.context_length,
    )

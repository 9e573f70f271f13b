"""`GET /api/models/DIGEST/golden/BEGIN/END`: what a node proves a shard by.

Invariants: open to everybody, because whoever has the model can compute the rows too; a refusal is
`{"error": {"code", "message"}}`; 404 says that there is nothing to prove a shard by, any other refusal that there may
be.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag

from meshnet.errors import ArtifactError
from tracker_site.accounts.rate_limit import RateLimit, client_address
from tracker_site.catalog.goldens import read_excerpt
from tracker_site.catalog.models import Model

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

logger = logging.getLogger(__name__)

CONTENT_TYPE: Final = "application/octet-stream"
METHODS: Final = ("GET", "HEAD")
# A probe that is replaced while it is asked for takes its file along: its row is read again.
READS: Final = 3


def golden(request: HttpRequest, digest: str, layer_begin: int, layer_end: int) -> HttpResponseBase:
    """Golden rows at both ends of layers [layer_begin, layer_end) of the artifact with this digest (hex)."""
    if request.method not in METHODS:
        response = _error("method_not_allowed", "use GET", 405)
        response["Allow"] = ", ".join(METHODS)
        return response
    if not RateLimit("golden", settings.GOLDENS_PER_MINUTE).admit(client_address(request)):
        response = _error("too_many_requests", "wait a minute", 429)
        response["Retry-After"] = "60"
        return response
    return _look_up(request, digest, layer_begin, layer_end)


def _look_up(request: HttpRequest, digest: str, layer_begin: int, layer_end: int) -> HttpResponseBase:
    for _ in range(READS):
        model = Model.objects.filter(artifact_digest=digest).first()
        path = model.golden_path if model is not None else None
        if model is None or path is None:
            return _error("no_golden_probe", "there is no golden probe of this artifact", 404)
        try:
            excerpt = read_excerpt(path, model.n_layers, layer_begin, layer_end)
        except FileNotFoundError:
            continue
        except (OSError, ArtifactError) as error:
            return _unreadable(digest, type(error).__name__)
        if excerpt is None:
            return _error("no_golden_rows", "the model is not cut there", 404)
        return _answer(request, model.golden_digest, excerpt)
    return _unreadable(digest, FileNotFoundError.__name__)


def _answer(request: HttpRequest, golden_digest: str, excerpt: bytes) -> HttpResponseBase:
    """The excerpt, or 304 where the one that is asked for has it."""
    whole = HttpResponse(excerpt, content_type=CONTENT_TYPE)
    whole["ETag"] = etag = quote_etag(golden_digest)
    return get_conditional_response(request, etag=etag, response=whole) or whole


def _unreadable(digest: str, why: str) -> JsonResponse:
    logger.error("the golden probe of artifact %s cannot be read: %s", digest[:16], why)
    return _error("golden_unreadable", "the golden probe cannot be read; import it again", 503)


def _error(code: str, message: str, status: int) -> JsonResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=status)

"""`GET /api/models/DIGEST/golden/BEGIN/END`: the golden rows by which a node proves a shard.

Invariants: anybody may ask, because anybody who has the model can compute the rows. A refusal is
`{"error": {"code", "message"}}`. Status 404 means that there are no rows, so that the shard needs no proof; after any
other refusal the node should ask again, because there may be rows.
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
# If a probe is replaced while it is read, its file is gone; the database row is then read again, this often at most.
READS: Final = 3


def golden(request: HttpRequest, digest: str, layer_begin: int, layer_end: int) -> HttpResponseBase:
    """Answer with the golden rows at both ends of the layers [layer_begin, layer_end) of the artifact `digest`."""
    if request.method not in METHODS:
        response = _error("method_not_allowed", "use GET", 405)
        response["Allow"] = ", ".join(METHODS)
        return response
    if not RateLimit("golden", settings.GOLDENS_PER_MINUTE).admit(client_address(request)):
        response = _error("too_many_requests", "too many requests from this address; wait a minute", 429)
        response["Retry-After"] = "60"
        return response
    return _look_up(request, digest, layer_begin, layer_end)


def _look_up(request: HttpRequest, digest: str, layer_begin: int, layer_end: int) -> HttpResponseBase:
    for _ in range(READS):
        model = Model.objects.filter(artifact_digest=digest).first()
        path = model.golden_path if model is not None else None
        if model is None or path is None:
            return _error("no_golden_probe", "this site has no golden probe of this artifact", 404)
        try:
            excerpt = read_excerpt(path, model.n_layers, layer_begin, layer_end)
        except FileNotFoundError:
            continue
        except (OSError, ArtifactError) as error:
            return _unreadable(digest, type(error).__name__)
        if excerpt is None:
            return _error("no_golden_rows", "the golden probe has no rows at an end of these layers", 404)
        return _answer(request, model.golden_digest, excerpt)
    return _unreadable(digest, FileNotFoundError.__name__)


def _answer(request: HttpRequest, golden_digest: str, excerpt: bytes) -> HttpResponseBase:
    """Return the excerpt, or 304 if the request's ETag shows that the node already has it."""
    whole = HttpResponse(excerpt, content_type=CONTENT_TYPE)
    whole["ETag"] = etag = quote_etag(golden_digest)
    return get_conditional_response(request, etag=etag, response=whole) or whole


def _unreadable(digest: str, why: str) -> JsonResponse:
    logger.error("the golden probe of artifact %s cannot be read: %s; import it again", digest[:16], why)
    return _error(
        "golden_unreadable", "the site cannot read the golden probe; its administrator must import it again", 503
    )


def _error(code: str, message: str, status: int) -> JsonResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=status)

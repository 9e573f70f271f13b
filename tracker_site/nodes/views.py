"""`POST /api/nodes/enrol`, with which a node registers at the site.

Invariant: every answer to a POST is JSON; an error is `{"error": {"code", "message"}}`, and each code has one status.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.http import HttpResponseNotAllowed, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from tracker_site.accounts.rate_limit import RateLimit, client_address
from tracker_site.nodes.enrolment import EnrolmentError, enrol, parse_enrolment

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

MAX_BODY_BYTES: Final = 4096
STATUS: Final = {
    "bad_request": 400,
    "bad_token": 401,
    "node_blocked": 403,
    "too_many_nodes": 403,
    "key_enrolled_elsewhere": 409,
    "body_too_large": 413,
    "too_many_attempts": 429,
}


@csrf_exempt  # the client is a program with a token; it has no cookies
def enrol_node(request: HttpRequest) -> HttpResponseBase:
    """Enrol a node: {token, public_key, name} -> {node_id}; status 201 if it is new, else 200."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    limit = RateLimit("enrol", settings.ENROLMENTS_PER_MINUTE)
    if not limit.admit(client_address(request)):
        response = _error("too_many_attempts", "too many enrolments from this address; try again in a minute")
        response["Retry-After"] = "60"
        return response
    try:
        node, is_new = enrol(parse_enrolment(_json_body(request)))
    except EnrolmentError as error:
        return _error(error.code, error.message)
    return JsonResponse({"node_id": str(node.pk)}, status=201 if is_new else 200)


def _json_body(request: HttpRequest) -> object:
    if int(request.headers.get("Content-Length") or 0) > MAX_BODY_BYTES:
        raise EnrolmentError("body_too_large", "Too large", f"the body is limited to {MAX_BODY_BYTES} bytes")
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise EnrolmentError("bad_request", "Not JSON", "the body must be JSON") from error


def _error(code: str, message: str) -> JsonResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=STATUS[code])

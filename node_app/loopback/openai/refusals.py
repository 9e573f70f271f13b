"""Turns the refusals of HTTP requests into errors of the OpenAI API.

Invariants: pure; every reason has a code and a message of its own; the HTTP status stays that of the refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.openai.errors import RequestError
from meshnet.openai.http_refusals import too_large
from node_app.loopback.access import LOOPBACK
from node_app.loopback.refusals import Reason

if TYPE_CHECKING:
    from node_app.loopback.limits import ConnectionLimits
    from node_app.loopback.refusals import RequestRefusedError


def explain_refusal(refused: RequestRefusedError, port: int, limits: ConnectionLimits) -> RequestError:
    """Return the error that the client gets.

    Args:
        refused: the refusal that the connection or `check_access` raised.
        port: the API's port.
        limits: deadlines and bounds for the API's clients.
    """
    match refused.reason:
        case Reason.NOT_HTTP | Reason.HEAD_TOO_LARGE:
            code, message = "bad_http", "This is no HTTP request that this API can read."
        case Reason.BODY_TOO_LARGE:
            return too_large()
        case Reason.BODY_OVERDUE:
            message = f"The request's body did not come within {limits.body_timeout_s:g} s."
            code = "request_timeout"
        case Reason.OTHER_HOST:
            code, message = "host_not_allowed", f"This API answers only if it is addressed as http://{LOOPBACK}:{port}."
        case Reason.OTHER_ORIGIN:
            code = "origin_not_allowed"
            message = "This API answers programs of this machine, not web pages."
    return RequestError(code, message, status=refused.status)

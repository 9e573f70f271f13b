"""The refusals of the shared connection as the OpenAI API words them.

Invariants: pure; one entry for each reason; the status is the refusal's own.
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
    """Return the error that the client is told.

    Args:
        refused: by the connection or by the check of access.
        port: that the API listens on.
        limits: of its connections.
    """
    match refused.reason:
        case Reason.NOT_HTTP | Reason.HEAD_TOO_LARGE:
            code, message = "bad_http", "This is no HTTP request that can be answered."
        case Reason.BODY_TOO_LARGE:
            return too_large()
        case Reason.BODY_OVERDUE:
            message = f"The request's body did not come within {limits.body_timeout_s:g} s."
            code = "request_timeout"
        case Reason.OTHER_HOST:
            code, message = "host_not_allowed", f"This API answers to http://{LOOPBACK}:{port} only."
        case Reason.OTHER_ORIGIN:
            code = "origin_not_allowed"
            message = "This API answers to programs of this machine, not to web pages."
    return RequestError(code, message, status=refused.status)

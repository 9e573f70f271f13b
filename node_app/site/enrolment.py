"""Makes this installation known to a site: `POST /api/nodes/enrol`.

Invariants: one bounded request, blocking (the agent runs it in a thread); the answer is checked before it is believed;
a refusal that only a person can change is told apart from a site that is not there. The token is never logged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import requests

from meshnet.errors import MeshnetError, TransferError
from meshnet.printable import printable
from node_app.system.unreachable import why_unreachable

ENROL_PATH = "/api/nodes/enrol"
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 10.0
ANSWER_LIMIT_BYTES = 64 * 1024
NODE_ID_LENGTH_MAX = 64

# Statuses that say "later": the site is busy, restarting or behind a proxy that lost it.
RETRY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class EnrolmentRefusedError(MeshnetError):
    """The site does not take this node with this token; asking again cannot help."""


@dataclass(frozen=True, slots=True)
class EnrolmentRequest:
    """What a site is asked."""

    site_url: str
    token: str = field(repr=False)
    public_key: bytes
    name: str


def enrol(request: EnrolmentRequest) -> str:
    """Enrol and return the node id. Blocking; idempotent for the same key and owner.

    Raises:
        EnrolmentRefusedError: refused for good, with the site's reason.
        TransferError: no answer, or one that says to come back later.
    """
    body = {"token": request.token, "public_key": request.public_key.hex(), "name": request.name}
    try:
        with requests.post(
            request.site_url + ENROL_PATH,
            json=body,
            timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
            allow_redirects=False,  # a token is sent to the site that was named, and nowhere else
            stream=True,
        ) as response:
            data = next(response.iter_content(ANSWER_LIMIT_BYTES), b"")
            status = response.status_code
    except (requests.RequestException, OSError, ValueError) as error:  # the last: a wrong Location
        message = f"{request.site_url} cannot be reached: {why_unreachable(error)}"
        raise TransferError("site_unreachable", "Site not reachable", message) from error
    return read_answer(status, data)


def read_answer(status: int, data: bytes) -> str:
    """Return the node id of an answer.

    Raises:
        EnrolmentRefusedError: a refusal.
        TransferError: not an answer of a site that works.
    """
    if status in RETRY_STATUSES:
        raise TransferError("site_busy", "Site not ready", f"the site answered with status {status}")
    answer = _json_object(data)
    node_id = answer.get("node_id")
    if status in {200, 201} and isinstance(node_id, str) and 0 < len(node_id) <= NODE_ID_LENGTH_MAX:
        return node_id
    error = answer.get("error")
    if isinstance(error, dict) and 400 <= status < 500:
        code, message = printable(str(error.get("code", "refused")), 64), printable(str(error.get("message", "")), 300)
        raise EnrolmentRefusedError(code, "Enrolment refused", f"the site refused this node: {message or code}")
    message = f"status {status} with no answer of a Meshnet site; is the address right?"
    raise EnrolmentRefusedError("not_a_site", "Not a Meshnet site", message)


def _json_object(data: bytes) -> dict[str, object]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}  # told by the caller, with the status
    return value if isinstance(value, dict) else {}

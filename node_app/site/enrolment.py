"""Enrols this installation at a site: `POST /api/nodes/enrol`.

Invariants: enrolment is one request, bounded in time and in the size of its answer. It blocks, so the agent runs it in
a thread. The answer is checked before it is used. A refusal that only a person can change and a site that does not
answer raise different errors. The token is never logged.
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

# The site is busy, restarting or lost by its proxy: the same request may succeed later.
RETRY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class EnrolmentRefusedError(MeshnetError):
    """The site refuses this node with this token; asking again cannot help."""


@dataclass(frozen=True, slots=True)
class EnrolmentRequest:
    """The data with which a node enrols at a site.

    Attributes:
        site_url: the site's address, without a trailing slash.
        token: an enrolment token; the node will belong to the user who made the token.
        public_key: the public part of this installation's signing key.
        name: the node's name, for people.
    """

    site_url: str
    token: str = field(repr=False)
    public_key: bytes
    name: str


def enrol(request: EnrolmentRequest) -> str:
    """Enrol a node and return the id that the site gives it. Blocking; idempotent for the same key and owner.

    Raises:
        EnrolmentRefusedError: the site refused for good; the message holds its reason.
        TransferError: the site cannot be reached or is not ready; the same request may succeed later.
    """
    body = {"token": request.token, "public_key": request.public_key.hex(), "name": request.name}
    try:
        with requests.post(
            request.site_url + ENROL_PATH,
            json=body,
            timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
            allow_redirects=False,  # the token is sent to the named site, and nowhere else
            stream=True,
        ) as response:
            data = next(response.iter_content(ANSWER_LIMIT_BYTES), b"")
            status = response.status_code
    except (requests.RequestException, OSError, ValueError) as error:  # a malformed Location is a ValueError
        message = f"{request.site_url} cannot be reached: {why_unreachable(error)}"
        raise TransferError("site_unreachable", "Site not reachable", message) from error
    return read_answer(status, data)


def read_answer(status: int, data: bytes) -> str:
    """Return the node id from the site's answer to an enrolment.

    Args:
        status: the answer's HTTP status.
        data: the answer's body; it may be anything.

    Raises:
        EnrolmentRefusedError: the site refused for good, or the answer is not that of a Meshnet site.
        TransferError: the status says that the site is not ready.
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
    message = f"status {status}, and the answer is not that of a Meshnet site; check the address that --site names"
    raise EnrolmentRefusedError("not_a_site", "Not a Meshnet site", message)


def _json_object(data: bytes) -> dict[str, object]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}  # the caller's message holds the status
    return value if isinstance(value, dict) else {}

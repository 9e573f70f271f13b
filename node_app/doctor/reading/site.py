"""Asks a site for its health and its wire versions, without sending a token, a key or this node's name."""

from __future__ import annotations

import json
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from node_app.doctor.importing import IMPORT_LOCK
from node_app.doctor.judging.site import ControlFacts, HealthFacts
from node_app.system.unreachable import why_unreachable

if TYPE_CHECKING:
    import requests

HEALTH_PATH: Final = "/healthz"
CONNECT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 5.0
ANSWER_LIMIT_BYTES: Final = 4096


def read_health(site_url: str) -> HealthFacts:
    """Request the site's `/healthz` and return the facts of its answer; redirects are not followed."""
    with IMPORT_LOCK:
        import requests  # noqa: PLC0415 - may be missing, which is a finding

    started_s = time.monotonic()
    try:
        with requests.get(
            site_url + HEALTH_PATH, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S), allow_redirects=False, stream=True
        ) as answer:
            data = next(answer.iter_content(ANSWER_LIMIT_BYTES), b"")
            return _read_answer(answer, data, (time.monotonic() - started_s) * 1000)
    except (requests.RequestException, OSError, ValueError) as error:  # ValueError: a malformed Location header
        return HealthFacts(problem=f"{site_url} cannot be reached: {why_unreachable(error)}")


def _read_answer(answer: requests.Response, data: bytes, round_trip_ms: float) -> HealthFacts:
    return HealthFacts(
        http_status=answer.status_code,
        location=answer.headers.get("Location", "") if answer.is_redirect else "",
        says_ok=_says_ok(data),
        round_trip_ms=round_trip_ms,
        skew_s=_skew_s(answer.headers.get("Date", "")),
    )


def _says_ok(data: bytes) -> bool:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("status") == "ok"


def _skew_s(date: str) -> float | None:
    try:
        return time.time() - parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None  # the header is absent or holds no date


def read_control(site_url: str) -> ControlFacts:
    """Open the control connection, read the site's first message, and close it without naming this node."""
    with IMPORT_LOCK:
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - may be missing, which is a finding
        from websockets.exceptions import WebSocketException  # noqa: PLC0415 - as above
        from websockets.sync.client import connect  # noqa: PLC0415 - as above

        from meshnet.constants import MAX_MESSAGE_BYTES  # noqa: PLC0415
        from meshnet.v1 import control_pb2  # noqa: PLC0415 - as above
        from node_app.site.control_connection import control_url  # noqa: PLC0415 - as above

    url = control_url(site_url)
    try:
        with connect(
            url, open_timeout=CONNECT_TIMEOUT_S, close_timeout=1, max_size=MAX_MESSAGE_BYTES, user_agent_header=None
        ) as connection:
            data = connection.recv(timeout=READ_TIMEOUT_S)
        message = control_pb2.SiteMessage.FromString(data if isinstance(data, bytes) else b"")
    except (OSError, WebSocketException) as error:
        return ControlFacts(problem=f"{url} cannot be opened: {why_unreachable(error)}")
    except DecodeError:
        return ControlFacts(problem=f"{url} sent a message that is not a Meshnet site's")
    if message.WhichOneof("body") != "challenge":
        return ControlFacts(problem=f"{url} began with another message than a Meshnet site does")
    return ControlFacts("", message.challenge.wire_version_min, message.challenge.wire_version_max)

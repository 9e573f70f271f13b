"""Asks a site for the golden probe's rows at both ends of a shard: `GET /api/models/DIGEST/golden/BEGIN/END`.

Invariants: one request at a time, bounded in bytes and time. It blocks, so the agent runs it in a thread. The answer is
checked before it is used, and kept until `forget`, so a shard that is loaded again is tested without asking the site.
The request carries neither token nor key, since the rows are no secret.
"""

from __future__ import annotations

import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import requests
from urllib3.exceptions import HTTPError

from meshnet.errors import ArtifactError, TransferError
from meshnet.golden.probe import GOLDEN_BYTES_MAX, parse_golden
from node_app.system.unreachable import why_unreachable

if TYPE_CHECKING:
    from meshnet.golden.probe import GoldenProbe
    from node_app.settings import LayerSpan

CONNECT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 30.0
READ_BYTES: Final = 1024 * 1024
# For the whole answer: programs of this machine may be waiting for the shard meanwhile.
FIND_TIMEOUT_S: Final = 60.0


class GoldenSource:
    """Fetches golden probes from a site and keeps them.

    Args:
        site_url: the site's address, without a trailing slash.
        timeout_s: the time in which the site must have sent a whole answer.
    """

    def __init__(self, site_url: str, timeout_s: float = FIND_TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self._site_url = site_url
        self._known: dict[tuple[bytes, LayerSpan], GoldenProbe] = {}
        self._asking = threading.Lock()

    def find(self, artifact_digest: bytes, layers: LayerSpan) -> GoldenProbe | None:
        """Return the golden probe with which to test these layers; None if the site has none. Blocking.

        The answer's body is read until `timeout_s` is over, and READ_TIMEOUT_S longer at most. `requests` sets no
        deadline for the headers as a whole, so the caller must stop waiting by itself. If an earlier call has not
        returned yet, this one raises at once, so there is never more than one request.

        Raises:
            TransferError: the site sent no answer in time, or no golden probe of this artifact; ask again later.
        """
        if not self._asking.acquire(blocking=False):
            raise too_slow()
        try:
            return self._find(artifact_digest, layers)
        finally:
            self._asking.release()

    def forget(self, artifact_digest: bytes, layers: LayerSpan) -> None:
        """Drop a kept probe that the shard failed or that could not be used, so that `find` asks the site again."""
        self._known.pop((artifact_digest, layers), None)

    def _find(self, artifact_digest: bytes, layers: LayerSpan) -> GoldenProbe | None:
        key = (artifact_digest, layers)
        known = self._known.get(key)
        if known is not None:
            return known
        data = self._fetch(f"{artifact_digest.hex()}/golden/{layers.layer_begin}/{layers.layer_end}")
        if data is None:
            return None
        golden = self._known[key] = read_golden(data, artifact_digest)
        return golden

    def _fetch(self, path: str) -> bytes | None:
        deadline = time.monotonic() + self.timeout_s
        try:
            with requests.get(
                f"{self._site_url}/api/models/{path}",
                headers={"Accept-Encoding": "identity"},
                timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
                allow_redirects=False,
                stream=True,
            ) as response:
                # Also the answer of an older site, which has no golden probes.
                if response.status_code == HTTPStatus.NOT_FOUND:
                    return None
                if response.status_code != HTTPStatus.OK:
                    raise _later(f"the site answered with status {response.status_code}")
                return _read_bounded(response, deadline)
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:  # malformed Location: ValueError
            raise _later(f"{self._site_url} cannot be reached: {why_unreachable(error)}") from error


def read_golden(data: bytes, artifact_digest: bytes) -> GoldenProbe:
    """Return the golden probe from a site's answer.

    Args:
        data: the answer's body; it may be anything.
        artifact_digest: digest of the node's own model files.

    Raises:
        TransferError: the body is no golden probe of the model with this digest.
    """
    try:
        golden = parse_golden(data)
    except ArtifactError as error:
        raise _later(error.message) from error
    if golden.artifact_digest != artifact_digest:
        raise _later("the site sent the golden probe of another artifact")
    return golden


def too_slow() -> TransferError:
    """Return the error for a site that takes longer than the deadline."""
    return _later("the site does not answer in time")


def _read_bounded(response: requests.Response, deadline: float) -> bytes:
    data = bytearray()
    # `read1` returns the bytes that have come; `iter_content` would wait for a full part, even if they come slowly.
    while part := response.raw.read1(READ_BYTES, decode_content=False):
        data += part
        if len(data) > GOLDEN_BYTES_MAX:
            raise _later("the site's answer is too long")
        if time.monotonic() > deadline:
            raise too_slow()
    return bytes(data)


def _later(reason: str) -> TransferError:
    return TransferError("no_golden", "Golden probe not fetched", reason)

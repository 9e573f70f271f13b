"""What a client of the local API is told when its request is refused before it is looked at."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from node_app.loopback.limits import ConnectionLimits
from node_app.loopback.openai.refusals import explain_refusal
from node_app.loopback.refusals import Reason, RequestRefusedError

PORT = 8123
WORDS = {
    Reason.NOT_HTTP: ("bad_http", "This is no HTTP request that this API can read."),
    Reason.HEAD_TOO_LARGE: ("bad_http", "This is no HTTP request that this API can read."),
    Reason.BODY_TOO_LARGE: ("request_too_large", "The request is too large; the limit is 4194304 bytes."),
    Reason.BODY_OVERDUE: ("request_timeout", "The request's body did not come within 2.5 s."),
    Reason.OTHER_HOST: ("host_not_allowed", "This API answers only if it is addressed as http://127.0.0.1:8123."),
    Reason.OTHER_ORIGIN: (
        "origin_not_allowed",
        "This API answers programs of this machine, not web pages.",
    ),
}


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_has_its_code_and_words(reason: Reason) -> None:
    refused = RequestRefusedError(reason, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    error = explain_refusal(refused, PORT, ConnectionLimits(body_timeout_s=2.5))
    assert (error.status, error.error_type) == (413, "invalid_request_error")
    assert (error.code, error.message) == WORDS[reason]

"""What a worker says may quote a file: it is shown, and commands no terminal."""

from __future__ import annotations

import asyncio
import logging

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from node_app.worker.client import DETAILS_LENGTH_MAX, worker_error
from node_app.worker.process import _log_lines

HOSTILE = "architecture \x1b[2J\x1b]0;title\x07\u202e is\nnot served"


def an_error(details: str, status: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION) -> AioRpcError:
    return AioRpcError(status, Metadata(), Metadata(), details)


@pytest.mark.parametrize("status", [grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE])
def test_an_error_is_one_bounded_line_that_prints(status: grpc.StatusCode) -> None:
    error = worker_error(an_error(f"unsupported_architecture: {HOSTILE}{'x' * 100_000}", status))
    assert error.message.isprintable()
    assert "is?not served" in error.message
    assert len(error.message) < 2 * DETAILS_LENGTH_MAX


def test_its_code_is_read_as_before() -> None:
    error = worker_error(an_error(f"unsupported_architecture: {HOSTILE}"))
    assert error.code == "unsupported_architecture"


async def test_a_logged_line_prints(caplog: pytest.LogCaptureFixture) -> None:
    noted: list[str] = []
    stream = asyncio.StreamReader()
    stream.feed_data(b"meshnet-worker: \x1b[2Jtensor \xff\xfe\x07\r is twice there\n")
    stream.feed_eof()
    with caplog.at_level(logging.INFO):
        await _log_lines(stream, noted.append)
    assert len(noted) == len(caplog.messages) == 1
    assert (noted[0] + caplog.messages[0]).isprintable()
    assert "is twice there" in caplog.messages[0]

"""The reasons to refuse a request on loopback before its endpoint handles it.

Invariants: pure. Each endpoint turns a reason into its own JSON answer. No part of the request is kept.
"""

from __future__ import annotations

from enum import Enum, auto
from http import HTTPStatus


class Reason(Enum):
    """The reason to refuse a request. OTHER_HOST, OTHER_ORIGIN: the Host or Origin header names something else."""

    NOT_HTTP = auto()
    HEAD_TOO_LARGE = auto()
    BODY_TOO_LARGE = auto()
    BODY_OVERDUE = auto()
    OTHER_HOST = auto()
    OTHER_ORIGIN = auto()


class RequestRefusedError(Exception):
    """The request is refused; the endpoint answers with `status` and a text for `reason`."""

    def __init__(self, reason: Reason, status: HTTPStatus) -> None:
        super().__init__(reason.name)
        self.reason = reason
        self.status = status

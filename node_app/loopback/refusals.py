"""Why a request on loopback is refused before its endpoint looks at what it asks for.

Invariants: pure; an endpoint words the answer itself, since each has its own JSON; no part of the request is kept.
"""

from __future__ import annotations

from enum import Enum, auto
from http import HTTPStatus


class Reason(Enum):
    """The rule that a request broke."""

    NOT_HTTP = auto()
    HEAD_TOO_LARGE = auto()
    BODY_TOO_LARGE = auto()
    BODY_OVERDUE = auto()
    OTHER_HOST = auto()
    OTHER_ORIGIN = auto()


class RequestRefusedError(Exception):
    """The request is answered with `status`."""

    def __init__(self, reason: Reason, status: HTTPStatus) -> None:
        super().__init__(reason.name)
        self.reason = reason
        self.status = status

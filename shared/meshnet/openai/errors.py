"""The API's error objects, and the one table that translates Meshnet's errors into them.

Invariants: `code` is the stable code of the original error. If a stage failed, the error object names it. If the table
has no row for an error's code, its class decides the status; a client never gets a traceback. Messages are written by
us and hold no user text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict

from meshnet.errors import ArtifactError, LedgerError, MeshnetError, ProtocolError, RouteError, WorkerError
from meshnet.failure_codes import FailureCode

INVALID_REQUEST: Final = "invalid_request_error"
SERVER_ERROR: Final = "server_error"
# OpenAI's type for status 429; clients wait and retry by themselves.
RATE_LIMITED: Final = "requests"


class RequestError(MeshnetError):
    """A request was refused: it changed nothing, and the client gets an error object.

    Attributes:
        status: HTTP status.
        error_type: OpenAI's name for this class of errors.
        param: the parameter at fault, for example `messages[0].content`; None if no parameter is.
    """

    def __init__(
        self, code: str, message: str, *, status: int = 400, error_type: str = INVALID_REQUEST, param: str | None = None
    ) -> None:
        super().__init__(code, "Request refused", message)
        self.status = status
        self.error_type = error_type
        self.param = param


class ErrorObject(BaseModel):
    """OpenAI's error object. `stage` is our own field; it names the route's stage that failed."""

    model_config = ConfigDict(frozen=True)

    message: str
    type: str
    param: str | None = None
    code: str | None = None
    stage: int | None = None


class ErrorBody(BaseModel):
    """The JSON document of an error answer, and of an error event in a stream."""

    model_config = ConfigDict(frozen=True)

    error: ErrorObject


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The status and body of an error answer."""

    status: int
    body: ErrorBody


# Status and type by code, for errors whose class would give the wrong status.
STATUS_BY_CODE: Final[dict[str, tuple[int, str]]] = {
    "insufficient_credit": (402, "insufficient_quota"),
    FailureCode.CONTEXT_FULL: (400, INVALID_REQUEST),
    "prompt_too_large": (400, INVALID_REQUEST),
    "template_refused": (400, INVALID_REQUEST),
    "template_missing": (400, INVALID_REQUEST),
    "llama_missing": (503, SERVER_ERROR),
    FailureCode.STEP_TIMEOUT: (504, SERVER_ERROR),
    FailureCode.IDLE: (504, SERVER_ERROR),
    "routing_timeout": (504, SERVER_ERROR),
    "prefill_timeout": (504, SERVER_ERROR),
    "decode_timeout": (504, SERVER_ERROR),
    "generation_timeout": (504, SERVER_ERROR),
    "planning_timeout": (504, SERVER_ERROR),
}

# Status by class; the first class that matches decides.
STATUS_BY_CLASS: Final[tuple[tuple[type[MeshnetError], int], ...]] = (
    (RouteError, 503),
    (ProtocolError, 503),
    (LedgerError, 503),
    (WorkerError, 503),
    (ArtifactError, 500),
    (MeshnetError, 500),
)


def describe_error(error: MeshnetError) -> ErrorReply:
    """Translate one of our errors into the reply for a client."""
    status, error_type = _status_and_type(error)
    return ErrorReply(
        status=status,
        body=ErrorBody(
            error=ErrorObject(
                message=error.message,
                type=error_type,
                param=error.param if isinstance(error, RequestError) else None,
                code=error.code,
                stage=error.stage,
            )
        ),
    )


def _status_and_type(error: MeshnetError) -> tuple[int, str]:
    if isinstance(error, RequestError):
        return error.status, error.error_type
    if error.code in STATUS_BY_CODE:
        return STATUS_BY_CODE[error.code]
    status = next(status for kind, status in STATUS_BY_CLASS if isinstance(error, kind))
    return status, SERVER_ERROR

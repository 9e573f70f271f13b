"""The exceptions that Meshnet raises on purpose: one base class and its subclasses.

Invariant: the subclass decides how the error is handled. `code` is stable and machine-readable; `title` and `message`
are for people. Each interface (OpenAI JSON, WebSocket close, gRPC status, tray text) has one table of its own that
translates errors.
"""

from __future__ import annotations

import traceback


class MeshnetError(Exception):
    """Root of every error that Meshnet raises on purpose.

    Attributes:
        code: stable snake_case identifier, safe to show and to compare.
        title: a short heading.
        message: one or two sentences that say what happened and what to do; never prompts, keys or activations.
        stage: index of the route's stage at fault; None if no stage is at fault.
    """

    stage: int | None = None

    def __init__(self, code: str, title: str, message: str) -> None:
        super().__init__(code, title, message)
        self.code = code
        self.title = title
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ProtocolError(MeshnetError):
    """The other side broke the protocol: close the session or connection, and distrust the sender."""


class ArtifactError(MeshnetError):
    """The files of a model or a golden probe cannot be used: never try the same bytes again."""


class TransferError(MeshnetError):
    """The site did not answer, or not as expected: the same request may succeed later."""


class RouteError(MeshnetError):
    """A route cannot be found, or it is lost: plan another one, or fail the generation."""


class WorkerError(MeshnetError):
    """The native worker failed: its restart policy decides when to start it again."""


class LedgerError(MeshnetError):
    """A movement of credits was refused, and nothing was booked."""


def describe_unforeseen(error: BaseException) -> str:
    """Return the types and tracebacks of an unexpected error and of its causes, on several lines, for a log.

    The messages of these exceptions are left out, because they may quote a request.
    """
    lines: list[str] = []
    told: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in told:
        told.add(id(cause))
        lines += [type(cause).__qualname__, *(line.rstrip("\n") for line in traceback.format_tb(cause.__traceback__))]
        cause = cause.__cause__ or cause.__context__
    return "\n".join(lines)

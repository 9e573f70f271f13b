"""The stable codes of everything that can go wrong with a session.

Invariant: these are the codes of `docs/wire.md`, "Failure codes" (compared by `tests/contract/test_wire_page.py`); a
code is never renamed or reused.
Refusals, `StageFailure.code` and the API's error objects all carry them as plain strings.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class FailureCode(StrEnum):
    """Why a message was refused, a session was not opened, or an open session failed. Source: docs/wire.md."""

    MALFORMED = "malformed"
    MESSAGE_TOO_LARGE = "message_too_large"
    EDGE_NOT_PERMITTED = "edge_not_permitted"
    SEQUENCE_GAP = "sequence_gap"
    WRONG_POSITION = "wrong_position"
    WINDOW_EXCEEDED = "window_exceeded"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_SIZE = "wrong_size"
    BAD_TOKEN_ID = "bad_token_id"  # noqa: S105 - a vocabulary's token
    MISSING_TOKEN_IDS = "missing_token_ids"  # noqa: S105 - a vocabulary's token
    NOT_FINITE = "not_finite"
    UNKNOWN_SESSION = "unknown_session"
    OLD_EPOCH = "old_epoch"
    SESSION_EXISTS = "session_exists"
    CONTRACT_MISMATCH = "contract_mismatch"
    KV_EXHAUSTED = "kv_exhausted"
    TOO_MANY_SESSIONS = "too_many_sessions"
    NOT_READY = "not_ready"
    PAUSED = "paused"
    CONTEXT_FULL = "context_full"
    IDLE = "idle"
    STEP_TIMEOUT = "step_timeout"
    GATEWAY_LOST = "gateway_lost"
    STAGE_LOST = "stage_lost"
    REWIND_REFUSED = "rewind_refused"
    ENGINE_FAILED = "engine_failed"
    CANCELLED = "cancelled"


class NodeCode(StrEnum):
    """Codes that only a node gives, about its worker or its relay connection. Source: docs/wire.md, Of a node."""

    WORKER_LOST = "worker_lost"
    WORKER_TIMEOUT = "worker_timeout"
    RELAY_LOST = "relay_lost"
    WORKER_CHANGED = "worker_changed"


# A stage that is gone has one code for whoever waits for it, whether a neighbour, the relay or its own node told first.
STAGE_LOSSES: Final[frozenset[str]] = frozenset({NodeCode.WORKER_LOST, NodeCode.WORKER_TIMEOUT, NodeCode.RELAY_LOST})


# One heading per code for people; `message` says the rest.
TITLES: Final[dict[FailureCode, str]] = {
    FailureCode.MALFORMED: "Malformed message",
    FailureCode.MESSAGE_TOO_LARGE: "Message too large",
    FailureCode.EDGE_NOT_PERMITTED: "Edge not permitted",
    FailureCode.SEQUENCE_GAP: "Frame missing",
    FailureCode.WRONG_POSITION: "Wrong position",
    FailureCode.WINDOW_EXCEEDED: "Window exceeded",
    FailureCode.WRONG_SHAPE: "Wrong shape",
    FailureCode.WRONG_DTYPE: "Wrong element type",
    FailureCode.WRONG_SIZE: "Wrong size",
    FailureCode.BAD_TOKEN_ID: "Bad token id",
    FailureCode.MISSING_TOKEN_IDS: "Token ids missing",
    FailureCode.NOT_FINITE: "Not a finite number",
    FailureCode.UNKNOWN_SESSION: "Unknown session",
    FailureCode.OLD_EPOCH: "Old route attempt",
    FailureCode.SESSION_EXISTS: "Session exists",
    FailureCode.CONTRACT_MISMATCH: "Contracts differ",
    FailureCode.KV_EXHAUSTED: "No KV cells left",
    FailureCode.TOO_MANY_SESSIONS: "Too many sessions",
    FailureCode.NOT_READY: "Not ready",
    FailureCode.PAUSED: "Paused",
    FailureCode.CONTEXT_FULL: "Context full",
    FailureCode.IDLE: "Session idle",
    FailureCode.STEP_TIMEOUT: "Step deadline passed",
    FailureCode.GATEWAY_LOST: "Gateway lost",
    FailureCode.STAGE_LOST: "Stage lost",
    FailureCode.REWIND_REFUSED: "No way back",
    FailureCode.ENGINE_FAILED: "Engine failed",
    FailureCode.CANCELLED: "Cancelled",
}
_TITLES_BY_WORD: Final[dict[str, str]] = {code.value: title for code, title in TITLES.items()}


def title_of(code: str, otherwise: str) -> str:
    """Return the title of a code that came as a plain string; `otherwise` if it is not a `FailureCode`."""
    return _TITLES_BY_WORD.get(code, otherwise)

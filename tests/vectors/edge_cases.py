"""Cases of edge_messages.json: what each says once decoded, or why it is refused."""

from __future__ import annotations

from typing import Any

from meshnet.v1 import frame_pb2, session_pb2
from tests.vectors.frame_cases import SESSION, residence


def edge(kind: str | None, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A message on the edge 1 -> Gateway, changed field by field."""
    base: dict[str, Any] = {
        "session": SESSION,
        "epoch": 1,
        "from_stage": 1,
        "to_stage": 127,
        "kind": kind,
        "body": body,
    }
    return base | changes


def token(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "index": 0,
        "token_id": 65,
        "position": 12,
        "finish": None,
        "choice": 0,
        "logprob": None,
        "top_logprobs": [],
        "residence": [],
    }
    return base | changes


def top(token_id: int, logprob: float) -> dict[str, Any]:
    return {"token_id": token_id, "logprob": logprob}


def failure(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"code": "stage_lost", "message": "the next stage is gone", "stage": 1}
    return base | changes


def encode(fields: dict[str, Any]) -> bytes:
    """Bytes of any fields, right or wrong."""
    message = session_pb2.EdgeMessage(
        session=bytes.fromhex(fields["session"]),
        epoch=fields["epoch"],
        from_stage=fields["from_stage"],
        to_stage=fields["to_stage"],
    )
    if fields["kind"] is not None:
        getattr(message, fields["kind"]).CopyFrom(_body(fields["kind"], fields["body"]))
    return message.SerializeToString(deterministic=True)


def _body(kind: str, fields: dict[str, Any]) -> Any:
    types = {
        "ack": session_pb2.Ack,
        "token": session_pb2.TokenEvent,
        "prefill": session_pb2.PrefillProgress,
        "gone": session_pb2.SessionGone,
        "failure": session_pb2.StageFailure,
        "close": session_pb2.Close,
        "keepalive": session_pb2.Keepalive,
    }
    given = dict(fields)
    if "residence" in given:
        given["residence"] = [frame_pb2.StageResidence(**item) for item in given["residence"]]
    if "top_logprobs" in given:
        given["top_logprobs"] = [session_pb2.TokenLogprob(**item) for item in given["top_logprobs"]]
    finish = given.get("finish")
    if isinstance(finish, str):
        given["finish"] = session_pb2.FinishReason.Value(f"FINISH_REASON_{finish}")
    return types[kind](**given)


GOOD: dict[str, dict[str, Any]] = {
    "ack_of_the_first_frame": edge("ack", {"seq": 0}, from_stage=0, to_stage=1),
    "ack_of_a_large_number": edge("ack", {"seq": 2**64 - 1}, from_stage=127, to_stage=0),
    "token_plain": edge("token", token()),
    "token_zero_everything": edge("token", token(token_id=0, position=0)),
    "token_with_logprobs": edge(
        "token",
        token(
            index=31,
            logprob=-0.25,
            top_logprobs=[top(65, -0.25), top(66, -1.5)],
            residence=[residence(0, 1, 2, 3), residence(1, 4, 5, 6)],
        ),
    ),
    "token_with_logprob_zero": edge("token", token(logprob=0.0)),
    "token_that_stops": edge("token", token(index=9, token_id=257, finish="STOP")),
    "token_at_the_limit": edge("token", token(index=9, finish="LENGTH")),
    "prefill_progress": edge("prefill", {"done": 256, "residence": [residence(0, 5, 900, 2)]}, from_stage=0),
    "session_gone": edge("gone", {"reason": "unknown_session"}, from_stage=1, to_stage=0),
    "stage_failure": edge("failure", failure()),
    "stage_failure_without_text": edge("failure", failure(code="kv_exhausted", message="", stage=0)),
    "close": edge("close", {"reason": "cancelled"}, from_stage=127, to_stage=0),
    "keepalive": edge("keepalive", {}, from_stage=127, to_stage=0),
    "text_of_512_bytes": edge("close", {"reason": "é" * 256}, from_stage=127, to_stage=0),
}

# name -> (fields, code, whether only the session fails)
BAD_FIELDS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "short_session": (edge("keepalive", {}, session="00"), "malformed", False),
    "epoch_zero": (edge("keepalive", {}, epoch=0), "malformed", False),
    "stage_out_of_range": (edge("keepalive", {}, to_stage=126), "malformed", False),
    "stage_to_itself": (edge("keepalive", {}, to_stage=1), "malformed", False),
    "no_body": (edge(None, {}), "malformed", True),
    "token_id_beyond_31_bits": (edge("token", token(token_id=2**31)), "bad_token_id", True),
    "position_beyond_31_bits": (edge("token", token(position=2**31)), "malformed", True),
    "index_beyond_31_bits": (edge("token", token(index=2**31)), "malformed", True),
    "unknown_finish": (edge("token", token(finish=7)), "malformed", True),
    "21_alternatives": (edge("token", token(top_logprobs=[top(i, -1.0) for i in range(21)])), "malformed", True),
    "logprob_nan": (edge("token", token(logprob=float("nan"))), "not_finite", True),
    "alternative_infinite": (edge("token", token(top_logprobs=[top(1, float("-inf"))])), "not_finite", True),
    "alternative_beyond_31_bits": (edge("token", token(top_logprobs=[top(2**31, -1.0)])), "bad_token_id", True),
    "prefill_beyond_31_bits": (edge("prefill", {"done": 2**31}), "malformed", True),
    "failure_without_code": (edge("failure", failure(code="")), "malformed", True),
    "failure_code_with_spaces": (edge("failure", failure(code="Stage lost")), "malformed", True),
    "failure_of_the_gateway": (edge("failure", failure(stage=127)), "malformed", True),
    "failure_text_of_513_bytes": (edge("failure", failure(message="x" * 513)), "malformed", True),
    "gone_text_of_513_bytes": (edge("gone", {"reason": "x" * 513}), "malformed", True),
    "close_text_of_513_bytes": (edge("close", {"reason": "x" * 513}), "malformed", True),
    "residence_of_a_stage_twice": (
        edge("token", token(residence=[residence(0, 1, 1, 1), residence(0, 1, 1, 1)])),
        "malformed",
        True,
    ),
}

# name -> (hex, code, limit in bytes or None)
BAD_BYTES: dict[str, tuple[str, str, int | None]] = {
    "empty": ("", "malformed", None),
    "garbage": ("ff" * 24, "malformed", None),
    "truncated": (encode(GOOD["token_plain"])[:-1].hex(), "malformed", None),
    "over_the_limit": (encode(GOOD["token_plain"]).hex(), "message_too_large", 16),
}

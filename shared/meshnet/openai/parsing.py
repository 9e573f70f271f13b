"""Turns a request body into a `GenerationSpec`, or raises one clear `RequestError`.

Invariant: an error names the parameter and its defect, and never repeats a value that the client sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from meshnet.openai.chat_request import ChatRequest
from meshnet.openai.completion_request import CompletionRequest
from meshnet.openai.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

    from meshnet.openai.specification import GenerationSpec

# Error types of pydantic that have a code of their own. Of the others, `*_type` becomes `invalid_type`, and the rest
# `invalid_value`.
_CODES: Final = {
    "json_invalid": "invalid_json",
    "missing": "missing_required_parameter",
    "extra_forbidden": "unknown_parameter",
    "unsupported_parameter": "unsupported_parameter",
    "unsupported_value": "unsupported_value",
    "unsupported_content": "unsupported_content",
}
_NAME_LENGTH_MAX: Final = 64  # characters; if an unknown parameter's name is longer, an error does not repeat it


def parse_chat_request(body: bytes) -> GenerationSpec:
    """Read the body of a chat completion request.

    Raises:
        RequestError: 400 if the body is not JSON, or if a parameter is missing, wrong or not supported.
    """
    try:
        return ChatRequest.model_validate_json(body).specification()
    except ValidationError as error:
        raise _request_error(error) from None


def parse_completion_request(body: bytes) -> GenerationSpec:
    """Read the body of a text completion request.

    Raises:
        RequestError: 400 if the body is not JSON, or if a parameter is missing, wrong or not supported.
    """
    try:
        return CompletionRequest.model_validate_json(body).specification()
    except ValidationError as error:
        raise _request_error(error) from None


def _request_error(error: ValidationError) -> RequestError:
    first = error.errors(include_url=False, include_input=False)[0]
    kind = first["type"]
    param = _parameter(first)
    code = _CODES.get(kind, "invalid_type" if kind.endswith("_type") else "invalid_value")
    return RequestError(code, _message(kind, param, first), param=param)


def _parameter(details: ErrorDetails) -> str | None:
    named = details.get("ctx", {}).get("param")
    return named if isinstance(named, str) else _path(details["loc"])


def _path(location: Sequence[str | int]) -> str | None:
    """Write `("messages", 0, "content")` as `messages[0].content`; map keys and pydantic's own tags are left out."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier() and len(step) <= _NAME_LENGTH_MAX:
            path += f".{step}" if path else step
    return path or None


def _message(kind: str, param: str | None, details: ErrorDetails) -> str:
    if kind == "json_invalid":
        return "The body is not valid JSON."
    if kind == "missing":
        return f"Missing required parameter: '{param}'."
    if kind == "extra_forbidden":
        return f"Unknown parameter: '{param}'." if param else "Unknown parameter."
    if param is None:
        return f"The body is invalid: {details['msg']}"
    return f"Invalid '{param}': {details['msg']}"

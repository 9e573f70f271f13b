"""What both HTTP faces refuse before a request is read, in the same words.

Invariant: a text repeats nothing of the request but its method and, cut, its path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.openai.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Twice the prompt's own limit: JSON may escape every other character.
BODY_MAX_BYTES: Final = 4 * 1024 * 1024
# Larger bodies are parsed in a thread, so that they do not hold up streams.
PARSE_INLINE_BYTES: Final = 64 * 1024
JSON_TYPE: Final = "application/json"
_PATH_SHOWN_MAX: Final = 200  # characters


def not_json() -> RequestError:
    """415: the body is not declared as JSON."""
    return RequestError("unsupported_media_type", f"Send the request as 'Content-Type: {JSON_TYPE}'.", status=415)


def too_large() -> RequestError:
    """413: the body is."""
    message = f"The request is too large; at most {BODY_MAX_BYTES} bytes are taken."
    return RequestError("request_too_large", message, status=413)


def wrong_method(allowed: Sequence[str]) -> RequestError:
    """405: there is such a URL, for other methods."""
    message = f"Not allowed here; use {' or '.join(allowed)}."
    return RequestError("method_not_allowed", message, status=405)


def unknown_url(method: str, path: str) -> RequestError:
    """404: there is no such URL."""
    return RequestError("unknown_url", f"Unknown request URL: {method} {path[:_PATH_SHOWN_MAX]}.", status=404)


def unknown_model() -> RequestError:
    """404: nobody serves a model of that name."""
    message = "The requested model does not exist; GET /v1/models lists those that do."
    return RequestError("model_not_found", message, status=404, param="model")

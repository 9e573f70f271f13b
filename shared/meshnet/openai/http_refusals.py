"""Refusals that the site's HTTP server and that of a node have in common.

Invariant: a message repeats nothing of the request except its method and the beginning of its path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.openai.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Twice the prompt's own limit, since JSON may escape every second character.
BODY_MAX_BYTES: Final = 4 * 1024 * 1024
# A larger body is parsed in a thread, so that it does not delay streams.
PARSE_INLINE_BYTES: Final = 64 * 1024
JSON_TYPE: Final = "application/json"
_PATH_SHOWN_MAX: Final = 200  # characters


def not_json() -> RequestError:
    """Return the 415 error: the body is not declared as JSON."""
    return RequestError("unsupported_media_type", f"Send the request as 'Content-Type: {JSON_TYPE}'.", status=415)


def too_large() -> RequestError:
    """Return the 413 error: the body is too large."""
    message = f"The request is too large; the limit is {BODY_MAX_BYTES} bytes."
    return RequestError("request_too_large", message, status=413)


def wrong_method(allowed: Sequence[str]) -> RequestError:
    """Return the 405 error: the URL exists, but only for other methods."""
    message = f"This method is not allowed here; use {' or '.join(allowed)}."
    return RequestError("method_not_allowed", message, status=405)


def unknown_url(method: str, path: str) -> RequestError:
    """Return the 404 error: there is no such URL."""
    return RequestError("unknown_url", f"Unknown request URL: {method} {path[:_PATH_SHOWN_MAX]}.", status=404)


def unknown_model() -> RequestError:
    """Return the 404 error: no model has the requested name."""
    message = "The requested model does not exist; GET /v1/models lists those that do."
    return RequestError("model_not_found", message, status=404, param="model")

"""Authentication by bearer secret: finds the API key or node token that a request presents.

Invariant: if a secret is wrong, revoked, of another kind, or its user is inactive, the result is None in each case, so
that a caller cannot tell these cases apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from tracker_site import database
from tracker_site.accounts.models import ApiKey, NodeToken

if TYPE_CHECKING:
    from collections.abc import Mapping

BEARER = "bearer "


def bearer_secret(headers: Mapping[str, str]) -> str | None:
    """Return the secret in the header `Authorization: Bearer SECRET`; None if the header is missing or holds none."""
    value = headers.get("Authorization", "")
    if value[: len(BEARER)].lower() != BEARER:
        return None
    return value[len(BEARER) :].strip() or None


def authenticate_key(raw: str) -> ApiKey | None:
    """Return the API key with the secret `raw`, its user loaded, and record the use; None if `raw` is invalid."""
    key = ApiKey.find(raw)
    if key is not None:
        key.note_use(timezone.now())
    return key


async def authenticate_key_async(raw: str) -> ApiKey | None:
    """Do the same as `authenticate_key` without blocking the event loop."""
    key = await database.read(ApiKey.find, raw)
    now = timezone.now()
    if key is not None and key.is_use_due(now):
        await database.write(key.note_use, now)
    return key


def authenticate_node_token(raw: str) -> NodeToken | None:
    """Return the node token with the secret `raw`, its user loaded, and record the use; None if `raw` is invalid."""
    token = NodeToken.find(raw)
    if token is not None:
        token.note_use(timezone.now())
    return token

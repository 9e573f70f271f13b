"""From a secret in a request to the row it stands for.

Invariant: a wrong, revoked or foreign secret and one of an inactive user all give None, with nothing that tells them
apart.
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
    """The secret of an `Authorization: Bearer` header."""
    value = headers.get("Authorization", "")
    if value[: len(BEARER)].lower() != BEARER:
        return None
    return value[len(BEARER) :].strip() or None


def authenticate_key(raw: str) -> ApiKey | None:
    """The API key of a secret, with its user loaded; notes the use."""
    key = ApiKey.find(raw)
    if key is not None:
        key.note_use(timezone.now())
    return key


async def authenticate_key_async(raw: str) -> ApiKey | None:
    """Like `authenticate_key`, from the event loop."""
    key = await database.read(ApiKey.find, raw)
    now = timezone.now()
    if key is not None and key.is_use_due(now):
        await database.write(key.note_use, now)
    return key


def authenticate_node_token(raw: str) -> NodeToken | None:
    """The node token of a secret, with its user loaded; notes the use."""
    token = NodeToken.find(raw)
    if token is not None:
        token.note_use(timezone.now())
    return token

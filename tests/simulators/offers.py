"""Offers by their facts' names, so that a test says only what it is about."""

from __future__ import annotations

from dataclasses import fields, replace

from meshnet.shard_facts import NodeReach, ShardFigures, ShardIdentity
from tracker_site.routes.planning.offers import Offer

_PARTS = {"reach": NodeReach, "shard": ShardIdentity, "figures": ShardFigures}
_FINGERPRINT = b"f" * 32
# A node that answers, with a worker that has a link and room for a session.
_EMPTY = Offer(
    node_id="",
    reach=NodeReach(link_fingerprint=_FINGERPRINT, data_connected=True),
    shard=ShardIdentity(),
    figures=ShardFigures(),
)


def make_offer(**facts: object) -> Offer:
    """Return an offer of these facts. `sessions_free` and `has_link` are understood too."""
    return change_offer(_EMPTY, **facts)


def change_offer(offer: Offer, **facts: object) -> Offer:
    """Return the offer with other facts."""
    if "has_link" in facts:
        facts["link_fingerprint"] = _FINGERPRINT if facts.pop("has_link") else b""
    if "sessions_free" in facts:
        sessions = facts.get("sessions", offer.figures.sessions)
        facts["max_sessions"] = sessions + facts.pop("sessions_free")  # type: ignore[operator]  # both are counts
    changes: dict[str, object] = {}
    for part, kind in _PARTS.items():
        names = {field.name for field in fields(kind)} & facts.keys()
        changes[part] = replace(getattr(offer, part), **{name: facts.pop(name) for name in names})
    return replace(offer, **changes, **facts)  # type: ignore[arg-type]  # a test's builder

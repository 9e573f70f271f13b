"""Limits the attempts of one party, for example of an address, in a minute; Django's cache keeps the counts.

Invariants: a counter lives two minutes at most, and the cache's own limit bounds the memory of all counters. If the
site has no Redis, each process counts for itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.cache import cache

if TYPE_CHECKING:
    from django.http import HttpRequest

WINDOW_S = 60


@dataclass(frozen=True)
class RateLimit:
    """The most attempts that each party has in a minute. Limits with different `purpose` are counted apart."""

    purpose: str
    attempts_per_minute: int

    def admit(self, party: str) -> bool:
        """Count one attempt of a party, for example of an address; return False if the attempt exceeds the limit."""
        window = int(time.time()) // WINDOW_S
        key = f"rate:{self.purpose}:{party}:{window}"
        cache.add(key, 0, timeout=2 * WINDOW_S)
        try:
            return cache.incr(key) <= self.attempts_per_minute
        except (
            ValueError
        ):  # a full cache evicted the counter between the two calls, so this counts as the first attempt
            return True


def client_address(request: HttpRequest) -> str:
    """Return the address that a request came from; if a TLS proxy is configured, the address that the proxy saw."""
    forwarded = request.headers.get("X-Forwarded-For", "")
    if settings.BEHIND_HTTPS and forwarded:
        return forwarded.rsplit(",", 1)[-1].strip()[:64]
    return str(request.META.get("REMOTE_ADDR") or "unknown")

"""Counting attempts of one address per minute, in the shared cache.

Invariant: a counter lives two minutes at most, so the memory it takes is bounded by the cache's own size. Without Redis
each process counts for itself.
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
    """At most so many attempts a minute by one party."""

    purpose: str
    attempts_per_minute: int

    def admit(self, party: str) -> bool:
        """Count an attempt; False when it is one too many."""
        window = int(time.time()) // WINDOW_S
        key = f"rate:{self.purpose}:{party}:{window}"
        cache.add(key, 0, timeout=2 * WINDOW_S)
        try:
            return cache.incr(key) <= self.attempts_per_minute
        except ValueError:  # evicted between the two calls: the cache is full, and this is the first attempt it knows
            return True


def client_address(request: HttpRequest) -> str:
    """The address a request came from; behind our TLS proxy, the one that the proxy saw."""
    forwarded = request.headers.get("X-Forwarded-For", "")
    if settings.BEHIND_HTTPS and forwarded:
        return forwarded.rsplit(",", 1)[-1].strip()[:64]
    return str(request.META.get("REMOTE_ADDR") or "unknown")

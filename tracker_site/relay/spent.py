"""Remembers the tickets that must not be used again.

Invariant: an id is remembered until its ticket would have expired, so the memory is bounded by the rate at which the
site issues tickets.
"""

from __future__ import annotations

import heapq


class SpentTickets:
    """The ids of tickets that were used and must not be used again."""

    def __init__(self) -> None:
        self._ids: set[bytes] = set()
        self._expiries: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ticket_id: bytes, bind_before_unix_s: float) -> None:
        """Remember a ticket until it expires at `bind_before_unix_s`. Idempotent."""
        if ticket_id not in self._ids:
            self._ids.add(ticket_id)
            heapq.heappush(self._expiries, (bind_before_unix_s, ticket_id))

    def contains(self, ticket_id: bytes, now_unix_s: float) -> bool:
        """Return True if the ticket is spent. Forgets tickets that have expired by `now_unix_s`."""
        while self._expiries and self._expiries[0][0] <= now_unix_s:
            self._ids.discard(heapq.heappop(self._expiries)[1])
        return ticket_id in self._ids

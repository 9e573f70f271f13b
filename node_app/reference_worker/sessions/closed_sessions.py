"""Which attempts were closed, remembered for a while so that they are not opened again.

Source: docs/wire.md, Frames (closed pairs are remembered for 60 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.constants import CLOSED_MEMORY_S

if TYPE_CHECKING:
    from meshnet.ids import SessionKey


class ClosedSessions:
    """Newest closed epoch by session."""

    def __init__(self) -> None:
        self._closed: dict[bytes, tuple[int, float]] = {}

    def mark(self, key: SessionKey, now_s: float) -> None:
        """Remember an attempt and all before it."""
        self._closed[key.session] = (max(key.epoch, self._newest(key.session)), now_s)

    def holds(self, key: SessionKey, now_s: float) -> bool:
        """Whether this attempt or a later one was closed lately."""
        self._closed = {name: entry for name, entry in self._closed.items() if now_s - entry[1] <= CLOSED_MEMORY_S}
        return key.epoch <= self._newest(key.session)

    def _newest(self, session: bytes) -> int:
        return self._closed.get(session, (0, 0.0))[0]

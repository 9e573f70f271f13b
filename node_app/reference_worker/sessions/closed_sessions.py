"""Remembers for 60 s which epochs of a session were closed, so that none of them is opened again.

Source: docs/wire.md, Closing and admission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.constants import CLOSED_MEMORY_S

if TYPE_CHECKING:
    from meshnet.ids import SessionKey


class ClosedSessions:
    """The newest closed epoch of each session, and the monotonic time in seconds at which it was closed."""

    def __init__(self) -> None:
        self._closed: dict[bytes, tuple[int, float]] = {}

    def mark(self, key: SessionKey, now_s: float) -> None:
        """Remember that the session's epoch `key.epoch` and all earlier ones are closed. `now_s` is monotonic."""
        self._closed[key.session] = (max(key.epoch, self._newest(key.session)), now_s)

    def holds(self, key: SessionKey, now_s: float) -> bool:
        """Return whether the session's epoch `key.epoch` or a later one was closed within the last CLOSED_MEMORY_S."""
        self._closed = {name: entry for name, entry in self._closed.items() if now_s - entry[1] <= CLOSED_MEMORY_S}
        return key.epoch <= self._newest(key.session)

    def _newest(self, session: bytes) -> int:
        return self._closed.get(session, (0, 0.0))[0]

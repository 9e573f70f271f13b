"""Finding stop strings in text that arrives piece by piece.

Invariants: the text stops at the first character that completes any stop string, and is cut where the longest stop
string that ends there begins; the outcome does not depend on how the text was split. Text that may still turn out to be
the beginning of a stop string is held back.
"""

from __future__ import annotations


class StopStrings:
    """Matches a generation's stop strings; with none of them everything passes at once."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        if any(not stop for stop in stops):
            raise ValueError("a stop string is empty")
        self._stops = stops
        self._held = ""
        self._matched: str | None = None

    @property
    def matched(self) -> str | None:
        """The stop string that was found, or None."""
        return self._matched

    def push(self, text: str) -> str:
        """Take more text; return what is certain to belong to the answer. After a match, nothing more does."""
        if self._matched is not None:
            return ""
        self._held += text
        if (match := self._first_match()) is not None:
            begin, self._matched = match
            released, self._held = self._held[:begin], ""
            return released
        keep = self._undecided_length()
        released, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return released

    def finish(self) -> str:
        """Return the held-back text: no more comes, so it was no stop string."""
        released, self._held = self._held, ""
        return released

    def _first_match(self) -> tuple[int, str] | None:
        """The match that ends first, the longest of those that end together, as (begin, stop string)."""
        found = [(begin + len(stop), begin, stop) for stop in self._stops if (begin := self._held.find(stop)) >= 0]
        if not found:
            return None
        _end, begin, stop = min(found)
        return begin, stop

    def _undecided_length(self) -> int:
        """Length of the longest end of the held text that begins some stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0

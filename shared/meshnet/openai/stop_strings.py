"""Finds stop strings in text that arrives piece by piece.

Invariants: the text ends at the first character that completes a stop string, and this stop string is removed; if
several end there, the longest one is removed. The result does not depend on how the text is cut into pieces. Text
is held back as long as it may be the beginning of a stop string.
"""

from __future__ import annotations


class StopStrings:
    """Finds the stop strings of one generation. If there are none, all text passes at once."""

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
        """Take more text; return the text that certainly belongs to the answer. After a match it is empty."""
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
        """Return the text that is still held back; call it when no more text comes."""
        released, self._held = self._held, ""
        return released

    def _first_match(self) -> tuple[int, str] | None:
        """Return (begin, stop string) of the match that ends first, or None; if several end there, the longest."""
        found = [(begin + len(stop), begin, stop) for stop in self._stops if (begin := self._held.find(stop)) >= 0]
        if not found:
            return None
        _end, begin, stop = min(found)
        return begin, stop

    def _undecided_length(self) -> int:
        """Return the length of the longest suffix of the held text with which a stop string may begin."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0

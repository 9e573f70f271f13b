"""Keeping control tokens' spellings in user text apart from the control tokens that a template writes.

Each spelling in user text is replaced by a sentinel before the template is rendered, so that templates neither see nor
alter it; afterwards the rendered text is cut at the sentinels, and the spellings are tokenised as plain text.

Invariants: a sentinel holds the request's nonce, which the user cannot guess; sentinels are letters and digits, which
no template trims or escapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text; in a plain one nothing is a control token."""

    text: str
    is_plain: bool


class ControlSpellings:
    """Finds the spellings of a vocabulary's control tokens."""

    def __init__(self, spellings: Iterable[str]) -> None:
        longest_first = sorted({spelling for spelling in spellings if spelling}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def split(self, text: str) -> list[Span]:
        """Cut text into spans: spellings (plain) and the rest, in order; joined they are the text."""
        spans: list[Span] = []
        end = 0
        for match in self._pattern.finditer(text) if self._pattern else ():
            spans += [Span(text[end : match.start()], is_plain=False), Span(match.group(), is_plain=True)]
            end = match.end()
        spans.append(Span(text[end:], is_plain=False))
        return [span for span in spans if span.text]


class Sentinels:
    """The sentinels of one request: put into user text, taken out of rendered text."""

    def __init__(self, spellings: ControlSpellings, nonce: str) -> None:
        if not (nonce.isascii() and nonce.isalnum()):
            raise ValueError("the nonce must be ASCII letters and digits")
        self._spellings = spellings
        self._nonce = nonce
        self._replaced: list[str] = []

    def protect(self, text: str) -> str:
        """User text with every control token's spelling replaced by a sentinel."""
        return "".join(
            self._sentinel(span.text) if span.is_plain else span.text for span in self._spellings.split(text)
        )

    def restore(self, rendered: str) -> list[Span]:
        """Cut rendered text at the sentinels: the template's text, and the spellings as plain spans."""
        parts = re.split(rf"meshnet{self._nonce}n(\d+)e", rendered)
        spans = [
            Span(self._replaced[int(part)], is_plain=True) if index % 2 else Span(part, is_plain=False)
            for index, part in enumerate(parts)
        ]
        return [span for span in spans if span.text]

    def _sentinel(self, spelling: str) -> str:
        self._replaced.append(spelling)
        return f"meshnet{self._nonce}n{len(self._replaced) - 1}e"

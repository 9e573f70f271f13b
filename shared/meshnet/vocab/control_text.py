"""Keeps a user's text that spells a control token apart from the control tokens that a template writes.

Before the template is rendered, each such spelling in the user's text is replaced by a sentinel, so that templates
neither see nor change it. Afterwards the rendered text is cut at the sentinels, and the spellings are tokenised as
plain text.

Invariants: a sentinel contains the request's nonce, which the user cannot guess. Sentinels are letters and digits,
which no template trims or escapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text. If it is plain, nothing in it is a control token."""

    text: str
    is_plain: bool


class ControlSpellings:
    """Finds the spellings of a vocabulary's control tokens."""

    def __init__(self, spellings: Iterable[str]) -> None:
        longest_first = sorted({spelling for spelling in spellings if spelling}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def split(self, text: str) -> list[Span]:
        """Cut text into spans: the spellings of control tokens, as plain spans, and the text between them."""
        spans: list[Span] = []
        end = 0
        for match in self._pattern.finditer(text) if self._pattern else ():
            spans += [Span(text[end : match.start()], is_plain=False), Span(match.group(), is_plain=True)]
            end = match.end()
        spans.append(Span(text[end:], is_plain=False))
        return [span for span in spans if span.text]


class Sentinels:
    """Puts sentinels into the user texts of one request, and takes them out of the rendered text again."""

    def __init__(self, spellings: ControlSpellings, nonce: str) -> None:
        if not (nonce.isascii() and nonce.isalnum()):
            raise ValueError("the nonce must be ASCII letters and digits")
        self._spellings = spellings
        self._nonce = nonce
        self._replaced: list[str] = []

    def protect(self, text: str) -> str:
        """Return user text in which a sentinel replaces every spelling of a control token."""
        return "".join(
            self._sentinel(span.text) if span.is_plain else span.text for span in self._spellings.split(text)
        )

    def restore(self, rendered: str) -> list[Span]:
        """Cut rendered text at its sentinels and return the spans; sentinels become the spellings, as plain spans."""
        parts = re.split(rf"meshnet{self._nonce}n(\d+)e", rendered)
        spans = [
            Span(self._replaced[int(part)], is_plain=True) if index % 2 else Span(part, is_plain=False)
            for index, part in enumerate(parts)
        ]
        return [span for span in spans if span.text]

    def _sentinel(self, spelling: str) -> str:
        self._replaced.append(spelling)
        return f"meshnet{self._nonce}n{len(self._replaced) - 1}e"

"""Names that come from files, for people.

Invariant: what is returned is one bounded line that a terminal shows and does not obey.
"""

from __future__ import annotations

from typing import Final

# No file system's names are longer.
LENGTH_MAX: Final = 255


def printable(words: str, length_max: int = LENGTH_MAX) -> str:
    """The first `length_max` characters, "?" for each that does not print (escapes, line ends, undecodable bytes)."""
    return "".join(character if character.isprintable() else "?" for character in words[:length_max])

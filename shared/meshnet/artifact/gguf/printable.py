"""Names that come from files, for people.

Invariant: what is returned is one bounded line that a terminal shows and does not obey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import PurePath

# No file system's names are longer.
LENGTH_MAX: Final = 255
# Nor are paths that Linux opens. Source: linux/limits.h, PATH_MAX.
PATH_LENGTH_MAX: Final = 4096


def printable(words: str, length_max: int = LENGTH_MAX) -> str:
    """The first `length_max` characters, "?" for each that does not print (escapes, line ends, undecodable bytes)."""
    return "".join(character if character.isprintable() else "?" for character in words[:length_max])


def printable_path(path: PurePath) -> str:
    """A path as it was given, folders included: its name alone would not say where it was looked for."""
    return printable(str(path), PATH_LENGTH_MAX)

"""Makes text that came from files, peers or programs safe to store, log and show.

Invariant: every result is one bounded line of printable characters, so a terminal shows it and obeys nothing in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import PurePath

# No file system has longer names.
NAME_LENGTH_MAX: Final = 255
# Linux opens no longer paths. Source: linux/limits.h, PATH_MAX.
PATH_LENGTH_MAX: Final = 4096
SENTENCE_LENGTH_MAX: Final = 300


def printable(name: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """Return the first `length_max` characters of a name, with "?" for each that does not print.

    Escape characters, line ends and undecodable bytes do not print. No character is removed.
    """
    return "".join(character if character.isprintable() else "?" for character in name[:length_max])


def printable_path(path: PurePath) -> str:
    """Return a whole path, not only the file's name, with "?" for each character that does not print."""
    return printable(str(path), PATH_LENGTH_MAX)


def one_line(text: str, length_max: int = SENTENCE_LENGTH_MAX) -> str:
    """Return the first `length_max` characters, with one space for each run of spaces and unprintable characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text[:length_max]).split())

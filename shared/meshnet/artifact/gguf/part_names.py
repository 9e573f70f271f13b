"""Reads the part numbers of a model in several files, and makes the names of these files.

Source: the pinned llama.cpp's tools/gguf-split.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.limits import refused

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.artifact.gguf.part import GgufPart

_PART_NAME: Final = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def part_path(first: Path, number: int, count: int) -> Path:
    """Return the path of part `number` (from 0) of a model, given the path of its first part.

    Raises:
        ArtifactError: `bad_metadata` if the first part's name is not NAME-00001-of-COUNT.gguf, with this count.
    """
    named = _PART_NAME.fullmatch(first.name)
    if named is None or int(named["number"]) != 1 or int(named["count"]) != count:
        raise refused("bad_metadata", f"the first of {count} parts must be named NAME-00001-of-{count:05}.gguf")
    return first.with_name(f"{named['prefix']}-{number + 1:05}-of-{count:05}.gguf")


def split_number(part: GgufPart, key: str, *, default: int) -> int:
    """Return a whole number that a part's metadata gives under `key`, or `default` if the key is absent.

    Raises:
        ArtifactError: `bad_metadata` if the value is not a whole number.
    """
    value = part.metadata.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise refused("bad_metadata", f"{key} is not a number")
    return value

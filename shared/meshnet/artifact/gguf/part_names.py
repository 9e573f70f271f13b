"""How the parts of a split model are numbered and named. Source: the pinned tree's tools/gguf-split."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.limits import refused

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.artifact.gguf.part import GgufPart

_PART_NAME: Final = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def part_path(first: Path, number: int, count: int) -> Path:
    """Where part `number` (from 0) of a model lies whose first part is at `first`.

    Raises:
        ArtifactError: `bad_metadata`: the first part is not named as the first of so many.
    """
    named = _PART_NAME.fullmatch(first.name)
    if named is None or int(named["number"]) != 1 or int(named["count"]) != count:
        raise refused("bad_metadata", f"the first of {count} parts is named NAME-00001-of-{count:05}.gguf")
    return first.with_name(f"{named['prefix']}-{number + 1:05}-of-{count:05}.gguf")


def split_number(part: GgufPart, key: str, *, default: int) -> int:
    """A number of a part's place in the model.

    Raises:
        ArtifactError: `bad_metadata`: it is no number.
    """
    value = part.metadata.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise refused("bad_metadata", f"{key} is no number")
    return value

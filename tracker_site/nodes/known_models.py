"""What the register of nodes may know of the catalogue, which lies above it.

Invariant: set once, when the applications are loaded; the catalogue's application does it. Read in the thread of a
database transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of this site, as far as a shard can be compared with it."""

    name: str
    n_layers: int
    vocab_size: int
    is_listed: bool


# From an artifact's digest in hex.
ModelLookup: TypeAlias = "Callable[[str], KnownModel | None]"


class KnownModels:
    """Where the lookup is kept."""

    def __init__(self) -> None:
        self._lookup: ModelLookup | None = None

    def use(self, lookup: ModelLookup) -> None:
        """Look models up this way from now on."""
        self._lookup = lookup

    def find(self, artifact_digest: str) -> KnownModel | None:
        """The model of an artifact (digest in hex), or None where the site has none.

        Raises:
            LookupError: nobody has given a lookup; the applications are not loaded.
        """
        if self._lookup is None:
            raise LookupError("the catalogue is not loaded")
        return self._lookup(artifact_digest)


known_models = KnownModels()

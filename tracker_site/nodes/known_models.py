"""What the register of nodes may know of the catalogue, which lies above it.

Invariant: set once, when the applications are loaded; the catalogue's application does it. Read in the thread of a
database transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from meshnet.artifact.model.cuts import wrong_cuts

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of this site, as far as a shard can be compared with it.

    Attributes:
        legal_cuts: layers that a shard may begin with, beside the first; None: any.
        allows_mixed_recipes: shards that compute differently may share a route.
    """

    name: str
    n_layers: int
    vocab_size: int
    is_listed: bool
    legal_cuts: list[int] | None = None
    allows_mixed_recipes: bool = False

    def wrong_cuts(self, layer_begin: int, layer_end: int) -> list[int]:
        """The ends of a range at which the model may not be cut."""
        return wrong_cuts((layer_begin, layer_end), self.n_layers, self.legal_cuts)


# From an artifact's digest in hex.
ModelLookup: TypeAlias = "Callable[[str], KnownModel | None]"
# Names of all models by their artifacts' digests in hex.
NameLookup: TypeAlias = "Callable[[], dict[str, str]]"


class KnownModels:
    """Where the lookups are kept."""

    def __init__(self) -> None:
        self._lookup: ModelLookup | None = None
        self._names: NameLookup | None = None

    def use(self, lookup: ModelLookup, names: NameLookup) -> None:
        """Look models up this way from now on."""
        self._lookup, self._names = lookup, names

    def find(self, artifact_digest: str) -> KnownModel | None:
        """The model of an artifact (digest in hex), or None where the site has none.

        Raises:
            LookupError: nobody has given a lookup; the applications are not loaded.
        """
        if self._lookup is None:
            raise LookupError("the catalogue is not loaded")
        return self._lookup(artifact_digest)

    def names(self) -> dict[str, str]:
        """The name of every model by its artifact's digest in hex; one query.

        Raises:
            LookupError: as with `find`.
        """
        if self._names is None:
            raise LookupError("the catalogue is not loaded")
        return self._names()


known_models = KnownModels()

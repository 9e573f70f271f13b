"""The facts of a model in the catalogue, with which `nodes` compares the facts of shards.

Invariant: a `KnownModel` is frozen and read in one query.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshnet.artifact.model.cuts import wrong_cuts


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The facts of a model in the catalogue, with which the facts of a shard are compared.

    Attributes:
        legal_cuts: layers other than the first that a shard may begin with; None means that any layer may.
        allows_mixed_recipes: whether shards of different recipes may share a route.
    """

    name: str
    n_layers: int
    vocab_size: int
    is_listed: bool
    legal_cuts: list[int] | None = None
    allows_mixed_recipes: bool = False

    def wrong_cuts(self, layer_begin: int, layer_end: int) -> list[int]:
        """Return those of the two ends, `layer_begin` and `layer_end`, at which the model may not be cut."""
        return wrong_cuts((layer_begin, layer_end), self.n_layers, self.legal_cuts)

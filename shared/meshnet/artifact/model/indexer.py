"""Which layers select the rows that attention looks at, and which take the selection of a layer before them.

Source: the pinned tree's glm-dsa.cpp and deepseek4.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from meshnet.artifact.model.hparams import Hparams

INDEXER_TYPES: Final = "attention.indexer.types"
# Attends to a selection of rows that stand for so many tokens each; the other layers of deepseek4 use no indexer.
SELECTING_RATIO: Final = 4
# glm-dsa files with at least this context and without types share indexers: layers 0 and 1 have one of their own, and
# every fourth from layer 2.
_SHARED_CONTEXT: Final = 1_048_576
_FULL_EVERY: Final = 4


def compressed_uses(hparams: Hparams) -> list[bool | None]:
    """Of each deepseek4 layer: True where it selects, False where it takes a selection, None where it uses none.

    Raises:
        ArtifactError: `bad_metadata`.
    """
    ratios = hparams.per_layer("attention.compress_ratios", 0)
    types = hparams.per_layer(INDEXER_TYPES, 1)
    return [bool(full) if ratio == SELECTING_RATIO else None for ratio, full in zip(ratios, types, strict=True)]


def latent_uses(hparams: Hparams) -> list[bool]:
    """Of each glm-dsa layer: True where it selects, False where it takes the selection of a layer before it.

    Raises:
        ArtifactError: `bad_metadata`.
    """
    if hparams.has(INDEXER_TYPES):
        return [bool(full) for full in hparams.per_layer(INDEXER_TYPES, 1)]
    if hparams.required("context_length") < _SHARED_CONTEXT:
        return [True] * hparams.n_layers
    return [layer < 2 or layer % _FULL_EVERY == 2 for layer in range(hparams.n_layers)]

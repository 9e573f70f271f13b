"""Tells which layers select the rows that attention looks at, and which reuse the selection of an earlier layer.

Source: the pinned llama.cpp's glm-dsa.cpp and deepseek4.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from meshnet.artifact.model.hparams import Hparams

INDEXER_TYPES: Final = "attention.indexer.types"
# The compress ratio of the deepseek4 layers that attend to a selection of compressed rows, each of which stands for
# this many tokens. Layers with another ratio use no indexer.
SELECTING_RATIO: Final = 4
# If a glm-dsa file has at least this context length and lists no types, its layers share indexers: layers 0 and 1 have
# their own, and so has every fourth layer from layer 2 on.
_SHARED_CONTEXT: Final = 1_048_576
_FULL_EVERY: Final = 4


def compressed_uses(hparams: Hparams) -> list[bool | None]:
    """Return for each deepseek4 layer: True if it selects rows, False if it reuses a selection, None if it needs none.

    Raises:
        ArtifactError: `bad_metadata` if a value that decides this is wrong.
    """
    ratios = hparams.per_layer("attention.compress_ratios", 0)
    types = hparams.per_layer(INDEXER_TYPES, 1)
    return [bool(full) if ratio == SELECTING_RATIO else None for ratio, full in zip(ratios, types, strict=True)]


def latent_uses(hparams: Hparams) -> list[bool]:
    """Return for each glm-dsa layer: True if it selects rows, False if it reuses the selection of an earlier layer.

    Raises:
        ArtifactError: `bad_metadata` if a value that decides this is wrong.
    """
    if hparams.has(INDEXER_TYPES):
        return [bool(full) for full in hparams.per_layer(INDEXER_TYPES, 1)]
    if hparams.required("context_length") < _SHARED_CONTEXT:
        return [True] * hparams.n_layers
    return [layer < 2 or layer % _FULL_EVERY == 2 for layer in range(hparams.n_layers)]

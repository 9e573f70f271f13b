"""The one table of model architectures: which are served, where they may be cut, and which caches their layers keep.

Invariants: the served architectures are those in the C++ worker's own list (`kArchitectures` in
native/src/engine/llama_artifact.cpp); a test compares the two. An architecture that is not served is listed too if
`meshnet inspect` can read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class CutRule(StrEnum):
    """The rule that decides at which layers a model may be cut. Its value is the reason, for people."""

    EVERY = "every cut: layers hand over hidden rows alone"
    INDEXER = "a layer that reuses the indexer selection of an earlier one stays with it"
    UNKNOWN = "it is not known where this architecture may be cut"


class CacheLayout(Enum):
    """The kind of KV cache that the layers of an architecture keep. `caches.py` computes the sizes."""

    KEYS_AND_VALUES = auto()
    WINDOWED_OF_TWO = auto()  # every second layer has a sliding window, unless the metadata say otherwise
    WINDOWED_OF_SIX = auto()  # five of six layers have one
    LATENT = auto()  # compressed keys and values of multi-head latent attention
    LATENT_WITH_INDEXER = auto()
    COMPRESSED = auto()  # rows that stand for several tokens
    WITH_RECURRENT_LAYERS = auto()


@dataclass(frozen=True, slots=True)
class Architecture:
    """The table's entry for one architecture: its rule for cuts, its caches, and the workers that can compute it."""

    cut_rule: CutRule
    cache_layout: CacheLayout
    is_served: bool = True
    has_reference: bool = False  # the PyTorch worker computes it too


_PLAIN: Final = Architecture(CutRule.EVERY, CacheLayout.KEYS_AND_VALUES)
_DENSE: Final = Architecture(CutRule.EVERY, CacheLayout.KEYS_AND_VALUES, has_reference=True)
# By `general.architecture` of a GGUF file. `fake` is the test engine's.
ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "llama": _DENSE,
    "qwen2": _DENSE,
    "qwen3": _DENSE,
    "qwen3moe": _PLAIN,
    "glm4moe": _PLAIN,
    "gpt-oss": Architecture(CutRule.EVERY, CacheLayout.WINDOWED_OF_TWO),
    "gemma3": Architecture(CutRule.EVERY, CacheLayout.WINDOWED_OF_SIX),
    "deepseek2": Architecture(CutRule.EVERY, CacheLayout.LATENT),
    "deepseek4": Architecture(CutRule.INDEXER, CacheLayout.COMPRESSED),
    "qwen35": Architecture(CutRule.EVERY, CacheLayout.WITH_RECURRENT_LAYERS),
    "qwen35moe": Architecture(CutRule.EVERY, CacheLayout.WITH_RECURRENT_LAYERS),
    "glm-dsa": Architecture(CutRule.INDEXER, CacheLayout.LATENT_WITH_INDEXER, is_served=False),
    "fake": Architecture(CutRule.EVERY, CacheLayout.KEYS_AND_VALUES, is_served=False),
}
SERVED_ARCHITECTURES: Final = tuple(name for name, one in ARCHITECTURES.items() if one.is_served)

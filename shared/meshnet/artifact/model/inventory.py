"""Assigns each tensor of a model to an owner (head, layer, tail ...), and sums the bytes that a range of layers needs.

Invariants: every tensor has one owner. A tied embedding belongs to the head, but the tail needs it too. The nextn (MTP)
blocks after the last layer belong to the tail, which never sends their hidden rows on. A tail that runs them also needs
a token embedding: a block's own, or the head's if the block has none. Workers do not load these blocks today, since the
protocol has no draft tokens. A tensor that no rule names belongs to every stage. `tests/integration/inspect` compares
all of this with the tensors that the pinned llama.cpp loads. Source: llama.cpp's llama-arch.cpp (which tensors are
input, output or repeating), and our patches 0002 and 0016.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf import layer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meshnet.artifact.gguf import GgufHeader, GgufTensor

EMBEDDING: Final = "token_embd.weight"
OUTPUT: Final = "output.weight"
NEXTN_EMBEDDING: Final = ".nextn.embed_tokens.weight"
NEXTN_INPUT: Final = ".nextn.eh_proj.weight"
# Matched against the part of a tensor's name before the first dot.
_OF_THE_HEAD: Final = frozenset(
    {"token_embd", "token_embd_norm", "position_embd", "token_types", "per_layer_token_embd"}
)
_OF_THE_TAIL: Final = ("output", "cls", "dense_2", "dense_3")


class Owner(StrEnum):
    """The part of a model that a tensor belongs to. It decides which stages load the tensor."""

    HEAD = "head"
    LAYER = "layer"
    TAIL = "tail"
    NEXTN = "nextn"  # also the tail's, but left out unless asked for
    EVERY_STAGE = "every_stage"


@dataclass(frozen=True, slots=True)
class Holding:
    """Number and total size of a group of tensors, for example of those with the same owner."""

    tensors: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """Number and size of a model's tensors for each owner.

    Attributes:
        layers: one entry for each layer.
        tied_bytes: size of the embedding if it also serves as the output head; otherwise 0.
        nextn_embedding_bytes: size of the head's embedding if a nextn block has none of its own; otherwise 0.
    """

    head: Holding
    layers: tuple[Holding, ...]
    tail: Holding
    nextn: Holding
    every_stage: Holding
    tied_bytes: int
    nextn_embedding_bytes: int

    def weight_bytes(self, layer_begin: int, layer_end: int, *, with_nextn: bool = False) -> int:
        """Return the bytes of all weights that a stage with layers `[layer_begin, layer_end)` loads.

        `with_nextn` adds the nextn blocks to the weights of the tail.
        """
        own_bytes = sum(layer.size_bytes for layer in self.layers[layer_begin:layer_end])
        return own_bytes + self.beside_bytes(layer_begin, layer_end, with_nextn=with_nextn)

    def beside_bytes(self, layer_begin: int, layer_end: int, *, with_nextn: bool = False) -> int:
        """Return the bytes of the weights that a stage loads besides its layers, for example embeddings.

        `with_nextn` adds the nextn blocks to the weights of the tail.
        """
        is_head, is_tail = layer_begin == 0, layer_end == len(self.layers)
        size_bytes = self.every_stage.size_bytes
        if is_head:
            size_bytes += self.head.size_bytes
        if is_tail:
            size_bytes += self.tail.size_bytes + (self.nextn.size_bytes if with_nextn else 0)
        if is_tail and not is_head:
            size_bytes += max(self.tied_bytes, self.nextn_embedding_bytes if with_nextn else 0)
        return size_bytes


def owner_of(name: str, n_layers: int) -> Owner:
    """Return the owner of the tensor named `name` in a model of `n_layers` layers."""
    layer = layer_of(name)
    if layer is not None:
        return Owner.LAYER if layer < n_layers else Owner.NEXTN
    first = name.partition(".")[0]
    if first in _OF_THE_HEAD:
        return Owner.HEAD
    if first in _OF_THE_TAIL or first.startswith("output_"):
        return Owner.TAIL
    return Owner.EVERY_STAGE


def owned_by(header: GgufHeader, layer_begin: int, layer_end: int, *, with_nextn: bool = False) -> list[GgufTensor]:
    """Return the tensors that a stage with layers `[layer_begin, layer_end)` loads.

    `with_nextn` adds the nextn blocks to the tensors of the tail.
    """
    n_layers = header.n_layers
    is_head, is_tail = layer_begin == 0, layer_end == n_layers
    tail_embeds = is_tied_model(header) or (with_nextn and _nextn_needs_embedding(header))

    def is_owned(tensor: GgufTensor) -> bool:
        match owner_of(tensor.name, n_layers):
            case Owner.LAYER:
                layer = layer_of(tensor.name)
                return layer is not None and layer_begin <= layer < layer_end
            case Owner.HEAD:
                return is_head or (is_tail and tail_embeds and tensor.name == EMBEDDING)
            case Owner.TAIL:
                return is_tail
            case Owner.NEXTN:
                return is_tail and with_nextn
            case Owner.EVERY_STAGE:
                return True

    return [tensor for tensor in header.tensors if is_owned(tensor)]


def is_tied_model(header: GgufHeader) -> bool:
    """Tell if the embedding also serves as the output head."""
    return all(tensor.name != OUTPUT for tensor in header.tensors)


def _nextn_needs_embedding(header: GgufHeader) -> bool:
    """Tell if the file has a nextn block without a token embedding of its own."""
    names = {tensor.name for tensor in header.tensors}
    blocks = [f"blk.{block}" for block in range(header.n_layers, header.n_blocks)]
    return any(block + NEXTN_INPUT in names and block + NEXTN_EMBEDDING not in names for block in blocks)


def take_inventory(header: GgufHeader) -> Inventory:
    """Return the number and total size of a model's tensors for each owner."""
    n_layers = header.n_layers
    layers: list[list[GgufTensor]] = [[] for _ in range(n_layers)]
    others: dict[Owner, list[GgufTensor]] = {owner: [] for owner in Owner}
    for tensor in header.tensors:
        owner, layer = owner_of(tensor.name, n_layers), layer_of(tensor.name)
        held = layers[layer] if owner is Owner.LAYER and layer is not None else others[owner]
        held.append(tensor)
    embedding_bytes = sum(tensor.size_bytes for tensor in others[Owner.HEAD] if tensor.name == EMBEDDING)
    return Inventory(
        head=_holding(others[Owner.HEAD]),
        layers=tuple(map(_holding, layers)),
        tail=_holding(others[Owner.TAIL]),
        nextn=_holding(others[Owner.NEXTN]),
        every_stage=_holding(others[Owner.EVERY_STAGE]),
        tied_bytes=embedding_bytes if is_tied_model(header) else 0,
        nextn_embedding_bytes=embedding_bytes if _nextn_needs_embedding(header) else 0,
    )


def bytes_by_type(tensors: Iterable[GgufTensor]) -> dict[str, Holding]:
    """Return the number and total size of tensors by the name of their type, the type with the most bytes first."""
    sums: dict[str, tuple[int, int]] = {}
    for tensor in tensors:
        count, size_bytes = sums.get(tensor.type.name, (0, 0))
        sums[tensor.type.name] = (count + 1, size_bytes + tensor.size_bytes)
    return {name: Holding(*pair) for name, pair in sorted(sums.items(), key=lambda item: -item[1][1])}


def _holding(tensors: Sequence[GgufTensor]) -> Holding:
    return Holding(len(tensors), sum(tensor.size_bytes for tensor in tensors))

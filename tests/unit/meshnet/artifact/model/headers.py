"""Headers of small models of any architecture, for what is read of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meshnet.artifact.gguf import GgufHeader, read_header
from tests.simulators.gguf_header import HeaderTensor, Value, write_header

if TYPE_CHECKING:
    from collections.abc import Mapping

WIDTH = 64
VOCABULARY = 32


def block_names(blocks: int) -> list[str]:
    return [f"blk.{block}.attn_q.weight" for block in range(blocks)]


def a_header(
    folder: Path,
    architecture: str,
    blocks: int = 4,
    figures: Mapping[str, Value] | None = None,
    *,
    names: Sequence[str] | None = None,
) -> GgufHeader:
    """`figures` without the architecture's prefix; every tensor is `[WIDTH, WIDTH]` f32."""
    given: dict[str, Value] = {"block_count": blocks, "context_length": 4096, "embedding_length": WIDTH}
    given |= figures or {}
    metadata: dict[str, Value] = {"general.architecture": architecture}
    metadata |= {f"{architecture}.{key}": value for key, value in given.items()}
    if names is None:
        names = ["token_embd.weight", *block_names(blocks), "output_norm.weight", "output.weight"]
    tensors = [HeaderTensor(name, (WIDTH, WIDTH), "f32") for name in names]
    return read_header(write_header(folder / "model.gguf", metadata, tensors))


TENSOR_BYTES = WIDTH * WIDTH * 4

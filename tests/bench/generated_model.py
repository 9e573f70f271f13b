"""A model of about a billion parameters for benchmarks, generated here: what it says is noise, its steps cost the same.

Llama architecture, all matrices Q4_0, no vocabulary. Equal seeds give equal bytes: blocks are the raw output of a
PCG64, whose stream numpy keeps stable, with one scale a tensor, so that rows stay finite. The file is kept between runs
and its digest is checked in each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from numpy.typing import NDArray

SEED: Final = 20_240_229
BLOCK_ROWS: Final = 32  # weights of a Q4_0 block
BLOCK_BYTES: Final = 18  # an f16 scale, then 32 weights of four bits
# Standard deviation of a block's weights, uniform over -8..7, in units of its scale.
UNIFORM_SPREAD: Final = 4.61
FILE_SHA256: Final = "56a3c86a30b028e4773a872619bed98a6fbcf67049413f792c8f635e7b02e15d"

# Told how many of how many tensors are written.
Observer = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a llama model is built of; heads of 64."""

    layers: int = 22
    width: int = 2048
    feed_forward: int = 5632
    heads: int = 32
    kv_heads: int = 4
    vocabulary: int = 32_000
    context_length: int = 2048

    @property
    def parameters(self) -> int:
        """Weights of all matrices."""
        return sum(rows * columns for rows, columns in self.matrices().values())

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of every matrix, in the file's order."""
        kv_width = self.width // self.heads * self.kv_heads
        found = {"token_embd": (self.vocabulary, self.width), "output": (self.vocabulary, self.width)}
        for layer in range(self.layers):
            own = {
                "attn_q": (self.width, self.width),
                "attn_k": (kv_width, self.width),
                "attn_v": (kv_width, self.width),
                "attn_output": (self.width, self.width),
                "ffn_gate": (self.feed_forward, self.width),
                "ffn_up": (self.feed_forward, self.width),
                "ffn_down": (self.width, self.feed_forward),
            }
            found |= {f"blk.{layer}.{name}": shape for name, shape in own.items()}
        return found

    def norms(self) -> list[str]:
        """Vectors of ones, each as wide as the model."""
        layers = [f"blk.{layer}.{name}" for layer in range(self.layers) for name in ("attn_norm", "ffn_norm")]
        return ["output_norm", *layers]


def generated_model(folder: Path, observer: Observer) -> Path:
    """The file, generated where it is not there yet.

    Raises:
        ValueError: it is not what this recipe gives; a file of another recipe or a broken one is to be deleted.
    """
    path = folder / "generated-1b-q4_0.gguf"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        write_model(partial, Shape(), observer)
        partial.replace(path)
    digest = file_sha256(path)
    if digest != FILE_SHA256:
        raise ValueError(f"{path} has the digest {digest} instead of {FILE_SHA256}")
    return path


def write_model(path: Path, shape: Shape, observer: Observer) -> None:
    """Write a model of this shape."""
    writer = GGUFWriter(path, "llama")
    _add_metadata(writer, shape)
    blocks = np.random.PCG64(SEED)
    matrices = shape.matrices()
    for number, (name, (rows, columns)) in enumerate(matrices.items()):
        writer.add_tensor(f"{name}.weight", _q4_0(blocks, rows, columns), raw_dtype=GGMLQuantizationType.Q4_0)
        observer(number + 1, len(matrices))
    for name in shape.norms():
        writer.add_tensor(f"{name}.weight", np.ones(shape.width, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_metadata(writer: GGUFWriter, shape: Shape) -> None:
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(shape.vocabulary)
    writer.add_context_length(shape.context_length)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_layer_norm_rms_eps(1e-5)


def _q4_0(blocks: np.random.PCG64, rows: int, columns: int) -> NDArray[np.uint8]:
    """A matrix whose rows give outputs about as large as their inputs: [rows, columns / 32 blocks of 18 bytes]."""
    count = rows * columns // BLOCK_ROWS
    words = blocks.random_raw(count * 2).astype("<u8")
    scale = np.float16(1 / (UNIFORM_SPREAD * columns**0.5))
    packed = np.empty((count, BLOCK_BYTES), dtype=np.uint8)
    packed[:, :2] = np.frombuffer(scale.astype("<f2").tobytes(), dtype=np.uint8)
    packed[:, 2:] = words.view(np.uint8).reshape(count, BLOCK_BYTES - 2)
    return packed.reshape(rows, columns // BLOCK_ROWS * BLOCK_BYTES)


def file_sha256(path: Path) -> str:
    """SHA-256 of a whole file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

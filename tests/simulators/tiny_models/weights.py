"""A GGUF file of seeded weights: metadata under the architecture's name, matrices and vectors from one PCG64 stream.

Shapes are in GGUF's order: what a row holds first. Matrices are Q8_0 where their rows are whole blocks, so that
activations are rounded as real models' are; what an architecture's graph needs as F32 is written so. A model of F32
alone rounds nothing: sums in another order differ in their last bits only, and a row that is lost by much more.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

VOCABULARY: Final = 160
CONTEXT_LENGTH: Final = 4096
Q8_0_BLOCK: Final = 32
_UNIT_BITS: Final = 24  # of a raw word: every float32 in [0, 1) that has no more


class TinyWriter:
    """Writes one model. Not a context manager: `finish` writes the file, and nothing is there without it."""

    def __init__(self, path: Path, architecture: str, seed: int, *, floats_only: bool = False) -> None:
        self._writer = GGUFWriter(path, architecture)
        self._architecture = architecture
        self._floats_only = floats_only
        self._bits = np.random.PCG64(seed)
        self._writer.add_tokenizer_model("no_vocab")
        self.numbers(vocab_size=VOCABULARY, context_length=CONTEXT_LENGTH)

    def numbers(self, **values: float) -> None:
        """Metadata of the architecture: `a__b` is written as `a.b`; whole numbers as uint32, others as float32."""
        for name, value in values.items():
            key = f"{self._architecture}.{name.replace('__', '.')}"
            if isinstance(value, bool):
                self._writer.add_bool(key, value)
            elif isinstance(value, int):
                self._writer.add_uint32(key, value)
            else:
                self._writer.add_float32(key, value)

    def array(self, name: str, values: list[int]) -> None:
        """Metadata of the architecture, one value a layer."""
        self._writer.add_array(f"{self._architecture}.{name}", values)

    def matrix(self, name: str, *shape: int, gain: float = 1.0, exact: bool = False) -> None:
        """A matrix, or a stack of them, whose outputs are about `gain` times as large as its inputs.

        `exact`: F32 whatever its rows are.
        """
        spread = gain * math.sqrt(3.0 / shape[0])
        values = self._uniform(shape, spread)
        if exact or self._floats_only or shape[0] % Q8_0_BLOCK:
            self._writer.add_tensor(f"{name}.weight", values)
            return
        packed = quantize(values, GGMLQuantizationType.Q8_0)
        self._writer.add_tensor(f"{name}.weight", packed, raw_dtype=GGMLQuantizationType.Q8_0)

    def vector(self, name: str, *shape: int, spread: float = 0.1, mean: float = 0.0, suffix: str = ".bias") -> None:
        """F32 values around `mean`."""
        self._writer.add_tensor(f"{name}{suffix}", self._uniform(shape, spread) + np.float32(mean))

    def norm(self, name: str, width: int) -> None:
        """A norm's weights, around one."""
        self.vector(name, width, mean=1.0, suffix=".weight")

    def choices(self, name: str, chosen: int, rows: int, among: int) -> None:
        """For each row `chosen` different numbers below `among`: [chosen, rows] I32."""
        scores = self._uniform((among, rows), 1.0)
        picked = np.argsort(scores, axis=1, kind="stable")[:, :chosen]
        self._writer.add_tensor(f"{name}.weight", np.ascontiguousarray(picked, dtype=np.int32))

    def embeddings(self, width: int, *, tied: bool = False) -> None:
        """Token embeddings, output norm, and an output head of its own unless they are tied."""
        self.matrix("token_embd", width, VOCABULARY, gain=math.sqrt(width / 3.0))
        self.norm("output_norm", width)
        if not tied:
            # F32, so that a difference in the last bit of a hidden value reaches the logits.
            self.matrix("output", width, VOCABULARY, gain=2.0, exact=True)

    def finish(self) -> None:
        """Write everything to the file."""
        self._writer.write_header_to_file()
        self._writer.write_kv_data_to_file()
        self._writer.write_tensors_to_file()
        self._writer.close()

    def _uniform(self, shape: tuple[int, ...], spread: float) -> NDArray[np.float32]:
        """Values in +-`spread`, from the raw stream alone, which numpy keeps stable."""
        words = self._bits.random_raw(math.prod(shape)) >> np.uint64(64 - _UNIT_BITS)
        unit = words.astype(np.float32) * np.float32(2.0**-_UNIT_BITS)
        values = (unit * np.float32(2.0) - np.float32(1.0)) * np.float32(spread)
        return values.reshape(shape[::-1])

"""Which tiny models there are, and the digests of their files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.simulators.tiny_models import deepseek4, qwen35, transformers
from tests.simulators.tiny_models.weights import TinyWriter


@dataclass(frozen=True, slots=True)
class TinyModel:
    """One architecture, as GGUF files name it. `layers` are those that every token passes."""

    architecture: str
    layers: int
    seed: int
    write: Callable[[TinyWriter, int], None]
    sha256: str
    floats_only: bool = False


# Enough layers for every kind of an architecture's layers to stand at either side of a cut. Floats where a window's
# rows may lie in another order after a rewind.
TINY_MODELS: Final = (
    TinyModel(
        "llama",
        4,
        101,
        transformers.write_llama,
        "41984f157fe8410872cc3fa8eb4c35387a27ef7973a727bfecb23217b37e9b64",
    ),
    TinyModel(
        "qwen2",
        4,
        102,
        transformers.write_qwen2,
        "e23468d57e94677e8bece952e1e73fa40a350e5b758bb5368b03db5b90d379d0",
    ),
    TinyModel(
        "qwen3",
        4,
        103,
        transformers.write_qwen3,
        "83ad38c179cb97c4b16f0b5d8c05a53d9ea36735baa629b75a2cbb70b893cd0d",
    ),
    TinyModel(
        "qwen3moe",
        4,
        104,
        transformers.write_qwen3moe,
        "b92eed886e5180b16d7285dfbbb7595c2b85374902cfbaf39ca6a499fe0e351e",
    ),
    TinyModel(
        "glm4moe",
        4,
        105,
        transformers.write_glm4moe,
        "13b62a666159f72c657e008f091d0bde09b60a33d9ad5e60043e56c48f7bbd96",
    ),
    TinyModel(
        "gpt-oss",
        4,
        106,
        transformers.write_gpt_oss,
        "98ce7d77d4377b9be455b004b028be3f650b0a28a62576df59ea450393937885",
        floats_only=True,
    ),
    TinyModel(
        "gemma3",
        7,
        107,
        transformers.write_gemma3,
        "eb06c8f4d6ccb13c0981b82c6ccc7b08c5ad32520346eca697ce8d85a8f66d52",
        floats_only=True,
    ),
    TinyModel(
        "deepseek2",
        4,
        108,
        transformers.write_deepseek2,
        "83129f25d05a476d562149ea612b664aced0216f68b1ef44fce47907b7fad152",
    ),
    TinyModel(
        "deepseek4",
        7,
        109,
        deepseek4.write_deepseek4,
        "9a487774c0396049b7dd60bc4a422e8e6553f8ec9381e2d97468982b843d2040",
    ),
    TinyModel(
        "qwen35",
        5,
        110,
        qwen35.write_qwen35,
        "adabb029a5cca8b09fcd660c253b9b5559dd4dd408d92bf00a820b5124b3fbca",
    ),
    TinyModel(
        "qwen35moe",
        5,
        111,
        qwen35.write_qwen35moe,
        "93c0e9f89cf4ff3d1e8575fad5410276b6a55c598b6250614d522f3053c118a3",
    ),
)

# Files with blocks that draft, which are not served: one without an embedding of its own, one with. glm4moe above has
# a block as the first.
NEXTN_MODELS: Final = (
    TinyModel(
        "deepseek4",
        7,
        112,
        deepseek4.write_deepseek4_with_nextn,
        "bceb89baa27cfcf48ff43ff7cdfa1f97435815088e3ca9a8bf646e5adf414ce9",
    ),
    TinyModel(
        "qwen35",
        5,
        113,
        qwen35.write_qwen35_with_nextn,
        "fd8a238b33b637337f592cfcd3c1758769d2fc3c3e893788fec68a1c575ab7c2",
    ),
)

# Float32 rows that every type of weights can hold. Its file has the name of the llama above: give it a folder.
WIDE_LLAMA: Final = TinyModel(
    "llama",
    4,
    120,
    transformers.write_wide_llama,
    "0734b669a1ac91eac9e52cfd4db70ef99d816dc7f8551373906cf2bb7861ed94",
    floats_only=True,
)


def tiny_model(model: TinyModel, folder: Path) -> Path:
    """The file, made where it is not there yet or not what it should be.

    Raises:
        ValueError: this machine makes other bytes of the same recipe.
    """
    path = folder / f"{model.architecture}.gguf"
    if not (path.is_file() and _sha256(path) == model.sha256):
        # Tests of several processes may make it at once.
        partial = path.with_suffix(f".{os.getpid()}.partial")
        try:
            found = _sha256(write_tiny_model(model, partial))
            if found != model.sha256:
                raise ValueError(f"{model.architecture} has the digest {found} instead of {model.sha256}")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return path


def write_tiny_model(model: TinyModel, path: Path) -> Path:
    """Write the file and return its path."""
    writer = TinyWriter(path, model.architecture, model.seed, floats_only=model.floats_only)
    model.write(writer, model.layers)
    writer.finish()
    return path


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

"""The tensors of a layer range, read from a GGUF file and dequantised to float32.

Invariants: only the bytes of requested tensors are read, and every shape is checked before it is used. If the range has
a tensor that was not requested, that is an error, since the result would then lack a part of the model.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import gguf
import numpy as np
import torch

from meshnet.artifact.gguf import layer_of
from meshnet.errors import ArtifactError
from meshnet.printable import printable
from node_app.reference_worker.torch.model_facts import unsupported

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.artifact.gguf import GgufHeader, GgufTensor

_OF_THE_MODEL: Final = {"token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"}


class GgufWeights:
    """Reads one model's tensors by name. Not thread-safe; keeps no file open and no weights in memory."""

    def __init__(self, header: GgufHeader) -> None:
        self._places = {tensor.name: (part.path, tensor) for part in header.parts for tensor in part.tensors}
        self._taken: set[str] = set()
        self.bytes_read = 0
        self.elements_read = 0

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a tensor's shape in torch's order, rows first.

        Raises:
            ArtifactError: `bad_tensor`: there is no tensor of that name.
        """
        return self._place(name)[1].shape[::-1]

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Read the tensor `name` as f32. Its shape must be `shape`, in torch's order, rows first.

        Raises:
            ArtifactError: `bad_tensor`, `unreadable`, `truncated` or `unsupported_tensor_type`.
        """
        path, tensor = self._place(name)
        if tensor.shape[::-1] != shape:
            raise _bad_tensor(f"{name} has the shape {tensor.shape[::-1]} instead of {shape}")
        self._taken.add(name)
        self.bytes_read += tensor.size_bytes
        self.elements_read += math.prod(shape)
        return torch.from_numpy(_dequantised(_read(path, tensor), tensor).reshape(shape))

    def refuse_untaken(self, layer_begin: int, layer_end: int) -> None:
        """Raise if a tensor of these layers was never taken, or if a tensor that belongs to no layer is unknown here.

        Raises:
            WorkerError: `unsupported_architecture`.
        """
        for name in self._places.keys() - self._taken:
            layer = layer_of(name)
            is_used_elsewhere = name in _OF_THE_MODEL if layer is None else not layer_begin <= layer < layer_end
            if not is_used_elsewhere:
                raise unsupported(f"a model with the tensor {printable(name)}")

    def _place(self, name: str) -> tuple[Path, GgufTensor]:
        if name not in self._places:
            raise _bad_tensor(f"there is no tensor {name}")
        return self._places[name]


def _bad_tensor(message: str) -> ArtifactError:
    return ArtifactError("bad_tensor", "Unusable model file", message)


def _read(path: Path, tensor: GgufTensor) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(tensor.offset_bytes)
            data = file.read(tensor.size_bytes)
    except OSError as error:
        raise ArtifactError("unreadable", "Unusable model file", f"{printable(path.name)}: {error.strerror}") from error
    if len(data) != tensor.size_bytes:
        raise ArtifactError(
            "truncated", "Unusable model file", f"{printable(path.name)} became shorter while it was read"
        )
    return data


def _dequantised(data: bytes, tensor: GgufTensor) -> np.ndarray:
    row_bytes = tensor.shape[0] // tensor.type.block_elements * tensor.type.block_bytes
    rows = np.frombuffer(data, np.uint8).reshape(-1, row_bytes)
    try:
        values = gguf.dequantize(rows, gguf.GGMLQuantizationType[tensor.type.name.upper()])
    except (KeyError, NotImplementedError) as error:
        message = f"{printable(tensor.name)} is of the type {tensor.type.name}, which cannot be dequantised"
        raise ArtifactError("unsupported_tensor_type", "Unusable model file", message) from error
    # An array over a buffer of bytes is read-only, of which torch warns, so it is copied.
    return np.require(values, np.float32, ["C", "W"])

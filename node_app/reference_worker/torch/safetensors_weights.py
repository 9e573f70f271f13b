"""The tensors of a folder of safetensors files, by name.

Invariants: only headers and requested tensors are read, and every shape is checked before it is used. A tensor is found
by its name in the files' own headers, so no index file needs to be trusted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch
from safetensors import SafetensorError, safe_open

from meshnet.errors import ArtifactError
from meshnet.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

_ELEMENT_BYTES: Final = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
# Limits of one header, which the library reads at once, and of all tensors together. The largest models need far less.
_HEADER_BYTES_MAX: Final = 16 * 1024 * 1024
_TENSORS_MAX: Final = 131_072
_LENGTH_BYTES: Final = 8


class SafetensorsWeights:
    """Reads one model's tensors by name. Not thread-safe; keeps no file open and no weights in memory."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Path] = {}
        for path in sorted(folder.glob("*.safetensors")):
            for name in _names(path):
                if self._files.setdefault(name, path) != path:
                    raise bad_tensor(f"{printable(name)} is in two files")
            if len(self._files) > _TENSORS_MAX:
                raise bad_tensor(f"there are more than {_TENSORS_MAX} tensors")
        if not self._files:
            raise ArtifactError("unreadable", "Unusable model folder", "there are no tensors in *.safetensors files")
        self.bytes_read = 0
        self.elements_read = 0

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def names(self, prefix: str) -> list[str]:
        """Return the names of all tensors that begin with `prefix`, sorted."""
        return sorted(name for name in self._files if name.startswith(prefix))

    def take(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Read the tensor `name` as f32. Its shape must be `shape`.

        Raises:
            ArtifactError: `bad_tensor`, `unreadable` or `unsupported_tensor_type`.
        """
        if name not in self._files:
            raise bad_tensor(f"there is no tensor {printable(name)}")
        path = self._files[name]
        try:
            with safe_open(path, framework="pt") as file:
                part = file.get_slice(name)
                found, kind = tuple(part.get_shape()), part.get_dtype()
                if found != shape:
                    raise bad_tensor(f"{printable(name)} has the shape {found} instead of {shape}")
                if kind not in _ELEMENT_BYTES:
                    message = f"{printable(name)} is of the type {kind}, not a plain float"
                    raise ArtifactError("unsupported_tensor_type", "Unusable model folder", message)
                tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise _unreadable(path, str(error)) from error
        self.bytes_read += math.prod(shape) * _ELEMENT_BYTES[kind]
        self.elements_read += math.prod(shape)
        # Copied even if it is f32 already, since the tensor may lie in the file's mapped pages.
        return tensor.to(torch.float32, copy=True)


def bad_tensor(message: str) -> ArtifactError:
    """Return the error for a missing or unusable tensor."""
    return ArtifactError("bad_tensor", "Unusable model folder", message)


def _names(path: Path) -> list[str]:
    try:
        # Opening a pipe or a device could block.
        if not path.is_file():
            raise _unreadable(path, "it is no regular file")
        with path.open("rb") as begin:
            header_bytes = int.from_bytes(begin.read(_LENGTH_BYTES), "little")
        if header_bytes > _HEADER_BYTES_MAX:
            raise _unreadable(path, f"its header is longer than {_HEADER_BYTES_MAX} bytes")
        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, why: str) -> ArtifactError:
    return ArtifactError("unreadable", "Unusable model folder", f"{printable(path.name)}: {printable(why)}")

"""The tensors of a folder of safetensors files, by name.

Invariants: only headers and the tensors that are asked for are read; every shape is checked before it is used; a tensor
is found by its name alone, whichever file holds it, so that no index file is believed.
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
# Of a header, which the library reads at once, and of all files together; far above what the largest models have.
_HEADER_BYTES_MAX: Final = 16 * 1024 * 1024
_TENSORS_MAX: Final = 131_072
_LENGTH_BYTES: Final = 8


class SafetensorsWeights:
    """Reads one model's tensors. Not thread-safe; holds no file open and no weights."""

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
        """Those that begin so, in order."""
        return sorted(name for name in self._files if name.startswith(prefix))

    def take(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Read a tensor as f32.

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
        # A tensor of another type is converted, one of f32 copied: what is read may be the file's own mapped pages.
        return tensor.to(torch.float32, copy=True)


def bad_tensor(message: str) -> ArtifactError:
    """The error of a tensor that is not what it should be."""
    return ArtifactError("bad_tensor", "Unusable model folder", message)


def _names(path: Path) -> list[str]:
    try:
        # A pipe or a device would be waited for.
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

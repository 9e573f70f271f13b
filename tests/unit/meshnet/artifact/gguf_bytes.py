"""Writes GGUF files by hand, right or wrong, byte for byte, and looks for tensors in what is read of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from meshnet.artifact.gguf import GgufHeader, GgufTensor, layer_of

STRING, ARRAY, UINT32, BOOL = 8, 9, 4, 7


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key: str, value: str | int | bool | list[str]) -> bytes:
    match value:
        case bool():
            return string(key) + struct.pack("<I?", BOOL, value)
        case int():
            return string(key) + struct.pack("<II", UINT32, value)
        case str():
            return string(key) + struct.pack("<I", STRING) + string(value)
        case list():
            return string(key) + struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(string, value))


def tensor(name: str, shape: list[int], offset_bytes: int, type_number: int = 0) -> bytes:
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return string(name) + dimensions + struct.pack("<IQ", type_number, offset_bytes)


def tensors_of_layer(header: GgufHeader, layer: int) -> list[GgufTensor]:
    return [tensor for tensor in header.tensors if layer_of(tensor.name) == layer]


MODEL_KEYS = [
    entry("general.architecture", "llama"),
    entry("llama.block_count", 2),
    entry("llama.context_length", 128),
    entry("llama.embedding_length", 8),
]


@dataclass
class GgufFile:
    """Two layers of one f32 tensor of 8 values each, unless told otherwise."""

    magic: bytes = b"GGUF"
    version: int = 3
    keys: list[bytes] = field(default_factory=lambda: list(MODEL_KEYS))
    tensors: list[bytes] = field(
        default_factory=lambda: [tensor("blk.0.weight", [8], 0), tensor("blk.1.weight", [8], 32)]
    )
    n_keys: int | None = None
    n_tensors: int | None = None
    data: bytes = bytes(64)

    def to_bytes(self) -> bytes:
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_keys = len(self.keys) if self.n_keys is None else self.n_keys
        header = self.magic + struct.pack("<IQQ", self.version, n_tensors, n_keys)
        header += b"".join(self.keys) + b"".join(self.tensors)
        return header + bytes(-len(header) % 32) + self.data

    def write(self, path: Path) -> Path:
        path.write_bytes(self.to_bytes())
        return path

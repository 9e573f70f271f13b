"""Hostile GGUF headers: sound ones, changed at one or a few places that a reader could stumble over.

Invariant: equal seeds give equal bytes. A change knows what it hits (a count, a length, an offset, a type, a value);
it is not known whether a reader must refuse the result.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.reader import ValueType
from tests.simulators.gguf_header import HeaderTensor, Value, write_header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOSTILE_U64: Final = (0, 1, 2, 31, 33, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**48, 2**63 - 1, 2**63, 2**64 - 1)
HOSTILE_U32: Final = (0, 1, 2, 7, 12, 13, 33, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
HOSTILE_VALUES: Final[tuple[Value, ...]] = (
    0, 1, 2**31 - 1, 2**32 - 1, -1.0, float("nan"), float("inf"), "", "text", True, [0], [1, 2], ["a"], [2**31 - 1] * 9,
    "\x1b[2J\n", "name" * 2000,
)  # fmt: skip
HOSTILE_NAMES: Final = ("\x1b[2J", "two\nlines", "\u202egnp", "name" * 2000, "llama", "unheard-of")
WIDTH: Final = 64


@dataclass(frozen=True, slots=True)
class Field:
    """A number in a header: where it is, how wide, and what it counts."""

    at: int
    size_bytes: int
    kind: str


def sound_models() -> dict[str, tuple[dict[str, Value], list[HeaderTensor]]]:
    """Small models of several architectures, by name."""
    figures: dict[str, dict[str, Value]] = {
        "llama": {"attention.head_count": 4, "attention.head_count_kv": [2, 2, 1, 1]},
        "gemma3": {"attention.head_count": 4, "attention.sliding_window": 128},
        "glm-dsa": {
            "attention.key_length": 32, "attention.indexer.key_length": 16, "attention.indexer.types": [1, 0, 1, 0],
        },
        "deepseek4": {
            "attention.key_length": 32, "attention.sliding_window": 128, "attention.compress_ratios": [0, 4, 128, 4],
            "attention.indexer.key_length": 16, "hyper_connection.count": 4, "hash_layer_count": 1,
        },
        "qwen35": {
            "attention.head_count": 4, "ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16,
            "ssm.group_count": 2, "full_attention_interval": 4,
        },
    }  # fmt: skip
    names = ["token_embd.weight", *(f"blk.{layer}.attn_q.weight" for layer in range(4)), "output_norm.weight"]
    tensors = [HeaderTensor(name, (WIDTH, WIDTH), kind) for name, kind in zip(names, ("q8_0", "f32") * 3, strict=True)]
    return {name: (_metadata(name, given), tensors) for name, given in figures.items()}


def _metadata(architecture: str, figures: Mapping[str, Value]) -> dict[str, Value]:
    given: dict[str, Value] = {"block_count": 4, "context_length": 8192, "embedding_length": WIDTH, **figures}
    general: dict[str, Value] = {"general.architecture": architecture, "general.alignment": 32}
    tokens: dict[str, Value] = {"tokenizer.ggml.tokens": [f"t{number}" for number in range(40)]}
    return general | {f"{architecture}.{key}": value for key, value in given.items()} | tokens


def fields_of(data: bytes) -> list[Field]:
    """Every number of a sound header, in order."""
    found = [Field(0, 4, "magic"), Field(4, 4, "version"), Field(8, 8, "count"), Field(16, 8, "count")]
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    at = 24
    for _ in range(n_keys):
        at = _walk_value(data, _walk_string(data, at, found), found)
    for _ in range(n_tensors):
        at = _walk_string(data, at, found)
        (dimensions,) = struct.unpack_from("<I", data, at)
        found.append(Field(at, 4, "dimensions"))
        found += [Field(at + 4 + 8 * axis, 8, "shape") for axis in range(dimensions)]
        at += 4 + 8 * dimensions
        found += [Field(at, 4, "type"), Field(at + 4, 8, "offset")]
        at += 12
    return found


def _walk_string(data: bytes, at: int, found: list[Field]) -> int:
    found.append(Field(at, 8, "length"))
    return at + 8 + int(struct.unpack_from("<Q", data, at)[0])


def _walk_value(data: bytes, at: int, found: list[Field]) -> int:
    found.append(Field(at, 4, "type"))
    (tag,), at = struct.unpack_from("<I", data, at), at + 4
    if tag == ValueType.STRING:
        return _walk_string(data, at, found)
    if tag != ValueType.ARRAY:
        size_bytes = 1 if tag == ValueType.BOOL else 4
        found.append(Field(at, size_bytes, "value"))
        return at + size_bytes
    found += [Field(at, 4, "type"), Field(at + 4, 8, "count")]
    element, count = (int(value) for value in struct.unpack_from("<IQ", data, at))
    at += 12
    if element == ValueType.STRING:
        for _ in range(count):
            at = _walk_string(data, at, found)
        return at
    return at + count * (1 if element == ValueType.BOOL else 4)


class Mutator:
    """Makes hostile files from sound ones. `kinds` counts what was done."""

    def __init__(self, seed: int, scratch: Path) -> None:
        self._draw = random.Random(seed)
        self._models = list(sound_models().values())
        self._scratch = scratch
        self.kinds: dict[str, int] = {}

    def next(self) -> bytes:
        """One file's bytes."""
        metadata, tensors = self._draw.choice(self._models)
        if self._draw.random() < 0.4:
            metadata, tensors = self._other_model(dict(metadata), list(tensors))
        data = write_header(self._scratch, metadata, tensors).read_bytes()
        if self._draw.random() < 0.6:
            fields = fields_of(data)
            for _ in range(self._draw.choice((1, 1, 1, 2, 4))):
                data = self._hit_field(data, self._draw.choice(fields))
        if self._draw.random() < 0.25:
            data = self._draw.choice((self._flip_bytes, self._cut_off, self._repeat_piece))(data)
        return data

    def _note(self, kind: str) -> None:
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def _other_model(
        self, metadata: dict[str, Value], tensors: list[HeaderTensor]
    ) -> tuple[dict[str, Value], list[HeaderTensor]]:
        """Change what the file says, in sound bytes."""
        key = self._draw.choice(list(metadata))
        match self._draw.choice(("value", "value", "value", "absent", "layers", "names", "split", "architecture")):
            case "value":
                self._note("wrong value")
                metadata[key] = self._draw.choice(HOSTILE_VALUES)
            case "absent":
                self._note("absent key")
                del metadata[key]
            case "layers":
                self._note("absurd layers")
                key = next((one for one in metadata if one.endswith("block_count")), "block_count")
                metadata[key] = self._draw.choice((0, 3, 5, 4096, 4097, 2**31, 2**32 - 1))
            case "names":
                self._note("wrong name")
                name = self._draw.choice(("", "blk.9.x", "blk.99999.x", "blk.-1.x", "output_norm.weight", "n" * 64))
                at = self._draw.randrange(len(tensors))
                tensors[at] = HeaderTensor(name, tensors[at].shape, tensors[at].type)
            case "architecture":
                self._note("wrong architecture")
                own, other = metadata["general.architecture"], self._draw.choice(HOSTILE_NAMES)
                metadata = {key.replace(f"{own}.", f"{other}.", 1): value for key, value in metadata.items()}
                metadata["general.architecture"] = other
                if self._draw.random() < 0.5:
                    metadata.pop(f"{other}.context_length", None)
            case _:
                self._note("wrong split")
                metadata |= {
                    "split.no": self._draw.choice((0, 1, 2**31)),
                    "split.count": self._draw.choice((0, 1, 2, 5000, 2**32 - 1)),
                }
        return metadata, tensors

    def _hit_field(self, data: bytes, field: Field) -> bytes:
        self._note(field.kind)
        form, hostile = {1: ("<B", HOSTILE_U32), 4: ("<I", HOSTILE_U32), 8: ("<Q", HOSTILE_U64)}[field.size_bytes]
        (now,) = struct.unpack_from(form, data, field.at)
        drawn = self._draw.choice((*hostile, now + 1, max(0, now - 1), now * 2, now ^ 0x20))
        changed = struct.pack(form, drawn & (2 ** (8 * field.size_bytes) - 1))
        return data[: field.at] + changed + data[field.at + field.size_bytes :]

    def _flip_bytes(self, data: bytes) -> bytes:
        self._note("flipped bytes")
        changed = bytearray(data)
        for _ in range(self._draw.randrange(1, 9)):
            if changed:
                changed[self._draw.randrange(min(len(changed), 2048))] = self._draw.randrange(256)
        return bytes(changed)

    def _cut_off(self, data: bytes) -> bytes:
        self._note("cut off")
        return data[: self._draw.randrange(len(data) + 1)]

    def _repeat_piece(self, data: bytes) -> bytes:
        """A piece comes twice: keys and tensors that are there again, or everything behind is shifted."""
        self._note("repeated piece")
        begin = self._draw.randrange(len(data) + 1)
        end = min(len(data), begin + self._draw.randrange(1, 200))
        return data[:end] + data[begin:end] + data[end:]

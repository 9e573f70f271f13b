"""FakeEngine: a model without weights, whose rows depend on every token before them.

Invariants: every value is an integer below `MODULUS`, exact in f32, so that cutting the layers anywhere gives equal
rows; each sequence keeps one state per layer and position, so that it can be truncated to any length. No node runs this
code: it is the reference that the worker's own FakeEngine is compared with, and the model of every simulated stage.
Source: docs/wire.md, FakeEngine.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULUS: Final = 65521
VOCAB_SIZE: Final = 260
BOS_TOKEN_ID: Final = 256
END_TOKEN_ID: Final = 257
USER_TOKEN_ID: Final = 258
ASSISTANT_TOKEN_ID: Final = 259
MIN_WIDTH: Final = 4
DEFAULT_WIDTH: Final = 16
_PRINTABLE: Final = range(32, 127)
_PRINTABLE_BONUS: Final = 16.0
_END_LOGIT: Final = 64.0
_LOGIT_DIVISOR: Final = 4096.0
# What the coarsest codec may make of the largest integer below `MODULUS`.
_MAX_TAKEN: Final = 65536.0

Row: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FakeShard:
    """A contiguous range of a fake model's layers.

    Attributes:
        n_layers: of the whole model.
        width: elements of a row, `MIN_WIDTH` at least.
        layer_begin: first layer held (absolute).
        layer_end: one past the last.
    """

    n_layers: int
    width: int
    layer_begin: int
    layer_end: int

    def __post_init__(self) -> None:
        if not (0 <= self.layer_begin < self.layer_end <= self.n_layers and self.width >= MIN_WIDTH):
            raise ValueError(f"no such shard: layers {self.layer_begin}:{self.layer_end} of {self.n_layers}")

    @property
    def owns_input(self) -> bool:
        """Whether this is the head, which takes token ids."""
        return self.layer_begin == 0

    @property
    def owns_output(self) -> bool:
        """Whether this is the tail, which gives logits."""
        return self.layer_end == self.n_layers


class FakeSequence:
    """One session's rows on one shard. Not thread-safe."""

    def __init__(self, shard: FakeShard) -> None:
        self._shard = shard
        # _states[p][l - layer_begin]: the layer's state after position p.
        self._states: list[list[Row]] = []

    @property
    def length(self) -> int:
        """Positions held."""
        return len(self._states)

    def truncate(self, length: int) -> None:
        """Forget positions from `length` on.

        Raises:
            ValueError: fewer positions are held.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} positions to {length}")
        del self._states[length:]

    def step_tokens(self, token_ids: Sequence[int]) -> list[Row]:
        """Run the head's layers over new tokens; one row each."""
        return [self._step(embedding(token, self._shard.width)) for token in token_ids]

    def step_rows(self, rows: Sequence[Row]) -> list[Row]:
        """Run the layers over the previous stage's rows."""
        return [self._step(row) for row in rows]

    def _step(self, hidden: Row) -> Row:
        position, width = self.length, self._shard.width
        zeros = (0,) * width
        states: list[Row] = []
        for index, layer in enumerate(range(self._shard.layer_begin, self._shard.layer_end)):
            before = self._states[-1][index] if self._states else zeros
            state = tuple((31 * a + h + layer + 1) % MODULUS for a, h in zip(before, hidden, strict=True))
            hidden = tuple((3 * hidden[i] + state[(i + 1) % width] + position) % MODULUS for i in range(width))
            states.append(state)
        self._states.append(states)
        return hidden


def embedding(token_id: int, width: int) -> Row:
    """The head's input row of a token."""
    return tuple((token_id + 1) * (2 * i + 3) % MODULUS for i in range(width))


def logits_of(row: Row) -> list[float]:
    """The tail's logits of a row, `VOCAB_SIZE` of them, each exact in f32."""
    width = len(row)
    logits = [
        ((row[v % width] * (2 * v + 1) + row[(v + 1) % width]) % MODULUS) / _LOGIT_DIVISOR for v in range(VOCAB_SIZE)
    ]
    for v in _PRINTABLE:
        logits[v] += _PRINTABLE_BONUS
    if row[0] % 61 == 7:
        logits[END_TOKEN_ID] = _END_LOGIT
    return logits


def pack_rows(rows: Sequence[Row]) -> bytes:
    """Rows as little-endian f32, row-major."""
    values = [float(value) for row in rows for value in row]
    return struct.pack(f"<{len(values)}f", *values)


def unpack_rows(data: bytes, width: int) -> list[Row]:
    """Read back what `pack_rows` gave, or what a codec made of it, which counts by its bits.

    Raises:
        ValueError: the length is no whole number of rows, or no codec gives a value (NaN included).
    """
    if len(data) % (4 * width):
        raise ValueError(f"{len(data)} bytes are no rows of {width}")
    values = struct.unpack(f"<{len(data) // 4}f", data)
    if not all(0 <= value <= _MAX_TAKEN for value in values):
        raise ValueError("a row has a value that no fake layer gives")
    residues = [_residue_of(value) for value in values]
    return [tuple(residues[at : at + width]) for at in range(0, len(residues), width)]


def _residue_of(value: float) -> int:
    if value < MODULUS and value == int(value):
        return int(value)
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits) % MODULUS

"""Frozen types of a frame: one step's rows of one session on one directed edge.

Invariants: a value read by `meshnet.frame.codec` obeys every limit below, and its fields agree with each other. Whether
it fits its session is decided by `meshnet.session` (sequence, window) and by the stage (position, contract).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from meshnet.ids import Address, Edge, SessionKey

# llama.cpp's positions are 32-bit signed. Source: llama.h, llama_pos.
MAX_POSITION: Final = 2**31 - 1
MAX_ROWS: Final = 8192
MAX_TOKEN_ID: Final = 2**31 - 1
MAX_TENSORS: Final = 8
MAX_TENSOR_NAME_BYTES: Final = 64
MAX_ELEMENTS_PER_ROW: Final = 1 << 20
# Packed bytes of the first tensor of a whole frame: a prefill chunk of 32 MiB, with room to grow.
MAX_TENSOR_BYTES: Final = 256 * 1024 * 1024
MAX_FRAGMENTS: Final = 4096
Q8_0_BLOCK_ELEMENTS: Final = 32
Q8_0_BLOCK_BYTES: Final = 34


class Phase(IntEnum):
    """The kind of step that a frame's rows belong to."""

    PREFILL = 1  # rows of the prompt
    DECODE = 2  # one committed token
    VERIFY = 3  # one committed token and several drafts


class DType(IntEnum):
    """Element type of a tensor's decoded rows."""

    F32 = 1
    F16 = 2
    BF16 = 3
    I32 = 4

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return 2 if self in {DType.F16, DType.BF16} else 4


class Codec(IntEnum):
    """How rows are packed in `Tensor.data`. Only RAW keeps every bit."""

    RAW = 1
    BF16 = 2
    Q8_0 = 3

    @property
    def label(self) -> str:
        """The codec's name for people, also used in the database."""
        return self.name.lower()

    def can_pack(self, elements_per_row: int) -> bool:
        """Tell if rows of `elements_per_row` can be packed; q8_0 needs whole blocks."""
        return self is not Codec.Q8_0 or elements_per_row % Q8_0_BLOCK_ELEMENTS == 0

    def packed_bytes(self, elements: int, raw_element_bytes: int = 4) -> int:
        """Return the packed bytes of `elements` elements in whole rows."""
        match self:
            case Codec.BF16:
                return elements * 2
            case Codec.Q8_0:
                return elements // Q8_0_BLOCK_ELEMENTS * Q8_0_BLOCK_BYTES
            case Codec.RAW:
                return elements * raw_element_bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named block of rows.

    Attributes:
        shape: (rows, elements per row) of the whole frame, even if this is a fragment.
        data: packed rows, little-endian, row-major; a fragment holds only a part of them.
    """

    name: str
    dtype: DType
    shape: tuple[int, int]
    codec: Codec
    data: bytes

    @property
    def packed_bytes(self) -> int:
        """Packed bytes of all rows, even if this is a fragment."""
        rows, elements = self.shape
        return self.codec.packed_bytes(rows * elements, self.dtype.size_bytes)


@dataclass(frozen=True, slots=True)
class StageResidence:
    """How long one stage kept a step's rows, in microseconds of its own monotonic clock."""

    stage: int
    queue_us: int
    compute_us: int
    codec_us: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """The position of a frame's data inside the first tensor's whole data."""

    index: int
    count: int
    offset_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One step's rows. The fields are those of `frame.proto`; `session` has 16 bytes, and `epoch` counts from 1."""

    session: bytes
    epoch: int
    from_stage: int
    to_stage: int
    seq: int
    phase: Phase
    position: int
    rows: int
    rewind: bool = False
    prompt_end: bool = False
    token_ids: tuple[int, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    logits_rows: tuple[int, ...] = ()
    budget_ms: int = 0
    residence: tuple[StageResidence, ...] = ()
    fragment: Fragment | None = None

    @property
    def key(self) -> SessionKey:
        """The session and its epoch."""
        return SessionKey(self.session, self.epoch)

    @property
    def edge(self) -> Edge:
        """The directed edge that carries this frame."""
        return Edge(self.from_stage, self.to_stage)

    @property
    def address(self) -> Address:
        """The session, its epoch and the edge."""
        return Address(self.key, self.edge)

    @property
    def data_bytes(self) -> int:
        """Bytes of tensor data in this message, which is the amount that a window counts."""
        return sum(len(tensor.data) for tensor in self.tensors)

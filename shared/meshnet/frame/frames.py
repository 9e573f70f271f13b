"""Frozen types of a frame: one step's rows of one session on one directed edge.

Invariants: a value read by `meshnet.frame.codec` obeys every limit below and its fields agree with each other; whether
it fits a session is decided by `meshnet.session` (sequence, window) and by the stage (position, contract).
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
# Of one whole frame's first tensor: a 32 MiB prefill chunk with room to grow.
MAX_TENSOR_BYTES: Final = 256 * 1024 * 1024
MAX_FRAGMENTS: Final = 4096
Q8_0_BLOCK_ELEMENTS: Final = 32
Q8_0_BLOCK_BYTES: Final = 34


class Phase(IntEnum):
    """What the rows of a frame are for."""

    PREFILL = 1
    DECODE = 2
    VERIFY = 3


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
    """How rows are packed in `Tensor.data`; RAW is the only exact one."""

    RAW = 1
    BF16 = 2
    Q8_0 = 3

    @property
    def label(self) -> str:
        """Its name for people, and where it is stored."""
        return self.name.lower()

    def can_pack(self, elements_per_row: int) -> bool:
        """Whether rows of so many elements can be packed: q8_0 takes whole blocks."""
        return self is not Codec.Q8_0 or elements_per_row % Q8_0_BLOCK_ELEMENTS == 0

    def packed_bytes(self, elements: int, raw_element_bytes: int = 4) -> int:
        """Bytes that so many elements of whole rows take."""
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
        shape: (rows, elements per row) of the whole frame, also in a fragment.
        data: packed rows, little-endian, row-major; a fragment holds a part of them.
    """

    name: str
    dtype: DType
    shape: tuple[int, int]
    codec: Codec
    data: bytes

    @property
    def packed_bytes(self) -> int:
        """Bytes that all rows take once packed."""
        rows, elements = self.shape
        return self.codec.packed_bytes(rows * elements, self.dtype.size_bytes)


@dataclass(frozen=True, slots=True)
class StageResidence:
    """Time one stage kept a step's rows, microseconds by its own monotonic clock."""

    stage: int
    queue_us: int
    compute_us: int
    codec_us: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """Which part of the first tensor's data a frame holds."""

    index: int
    count: int
    offset_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One step's rows. Fields as in `frame.proto`; `session` is 16 bytes, `epoch` counts from 1."""

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
        """Session and epoch."""
        return SessionKey(self.session, self.epoch)

    @property
    def edge(self) -> Edge:
        """The directed edge that carries this frame."""
        return Edge(self.from_stage, self.to_stage)

    @property
    def address(self) -> Address:
        """Session, epoch and edge."""
        return Address(self.key, self.edge)

    @property
    def data_bytes(self) -> int:
        """Tensor bytes held by this message; what a window counts."""
        return sum(len(tensor.data) for tensor in self.tensors)

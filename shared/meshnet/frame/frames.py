"""Frozen types of a frame: one step's rows of one session on one directed edge.

Invariants: a frame read by `meshnet.frame.codec` obeys every limit below, and its fields agree with each other. Later,
`meshnet.session` checks its sequence number and window, and the stage checks its position and boundary contract.
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
    """Element type of a tensor's rows before they are packed."""

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
        """Tell if rows of so many elements can be packed; q8_0 needs whole blocks of 32 elements."""
        return self is not Codec.Q8_0 or elements_per_row % Q8_0_BLOCK_ELEMENTS == 0

    def packed_bytes(self, elements: int, raw_element_bytes: int = 4) -> int:
        """Return the bytes that `elements` elements in whole rows take once they are packed.

        `raw_element_bytes` is the size of an element in a raw tensor; other codecs ignore it.
        """
        match self:
            case Codec.BF16:
                return elements * 2
            case Codec.Q8_0:
                return elements // Q8_0_BLOCK_ELEMENTS * Q8_0_BLOCK_BYTES
            case Codec.RAW:
                return elements * raw_element_bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """Packed rows with the name that the boundary contract gives them.

    Attributes:
        dtype: element type of the rows before they are packed.
        shape: (rows, elements per row) of the whole frame, even if `data` is only a fragment of it.
        data: packed rows, little-endian and row-major, or a fragment of them.
    """

    name: str
    dtype: DType
    shape: tuple[int, int]
    codec: Codec
    data: bytes

    @property
    def packed_bytes(self) -> int:
        """Packed bytes of all rows, even if `data` is only a fragment of them."""
        rows, elements = self.shape
        return self.codec.packed_bytes(rows * elements, self.dtype.size_bytes)


@dataclass(frozen=True, slots=True)
class StageResidence:
    """How long one stage kept a step's rows, in microseconds of the stage's own monotonic clock.

    Attributes:
        queue_us: from the arrival of the rows to the batch that takes them.
        compute_us: the engine's step.
        codec_us: parsing, unpacking, packing and serialising.
    """

    stage: int
    queue_us: int
    compute_us: int
    codec_us: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """The position of a fragment's data in the only tensor of its frame.

    Attributes:
        index: number of the fragment, from 0.
        count: number of the frame's fragments, 2 or more.
        offset_bytes: position of the fragment's data in the tensor's whole data.
        total_bytes: size of the tensor's whole data.
    """

    index: int
    count: int
    offset_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One step's rows of one session on one edge, or a fragment of them. `frame.proto` explains all fields.

    Attributes:
        seq: number of the frame on its edge, from 0.
        position: position of the first row in the sequence.
        rewind: if true, the sequence is truncated to `position` first.
        prompt_end: if true, this is the prompt's last chunk.
        logits_rows: indices of the rows whose logits are wanted.
        budget_ms: time that is left for this step.
        residence: how long earlier stages kept the rows.
    """

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
        """Bytes of tensor data in this frame or fragment. The edge's window counts these bytes."""
        return sum(len(tensor.data) for tensor in self.tensors)

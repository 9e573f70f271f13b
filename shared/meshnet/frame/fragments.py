"""Cuts a frame that is larger than one message into parts (fragments), and joins the parts again.

Invariants: all parts of a frame carry its header and its `seq`. They arrive in order, since direct links and the relay
keep order. An assembler never holds more than the frame's own size. Source: docs/wire.md, Frames.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from meshnet.constants import MAX_MESSAGE_BYTES
from meshnet.failure_codes import FailureCode
from meshnet.frame.codec import serialise_frame
from meshnet.frame.frames import MAX_FRAGMENTS, MAX_TENSOR_BYTES, Fragment, Frame
from meshnet.frame.refusal import MessageError

# Reserved for the envelope around a frame: LinkMessage, BridgeBatch or a relay packet.
ENVELOPE_RESERVE_BYTES: Final = 1024
# Length prefixes of the tensor and its data, which an empty part does not have; each is a varint of at most 5 bytes.
_LENGTH_PREFIX_BYTES: Final = 16


def fragment_frame(frame: Frame, limit_bytes: int = MAX_MESSAGE_BYTES - ENVELOPE_RESERVE_BYTES) -> list[Frame]:
    """Cut a whole frame into parts of at most `limit_bytes`. If the frame fits, return it alone and unchanged.

    Raises:
        ValueError: the frame must be cut, but it does not have exactly one tensor, or `MAX_FRAGMENTS` parts would not
            be enough.
    """
    # Serialising the header alone is cheap; rows are copied only after they are known to fit.
    header_bytes = _header_bytes(frame)
    if header_bytes + frame.data_bytes <= limit_bytes:
        return [frame]
    if len(frame.tensors) != 1:
        raise ValueError(f"a frame of {len(frame.tensors)} tensors cannot be cut")
    part_bytes = limit_bytes - header_bytes
    count = -(-frame.data_bytes // part_bytes) if part_bytes > 0 else MAX_FRAGMENTS + 1
    if count > MAX_FRAGMENTS:
        raise ValueError(f"parts of {limit_bytes} bytes cannot hold this frame")
    return [_part(frame, index, count, part_bytes) for index in range(count)]


class FrameAssembler:
    """Joins the parts of one edge's frames, which come in order, one frame after the other. It is not thread-safe."""

    def __init__(self) -> None:
        self._parts: list[Frame] = []

    @property
    def seq(self) -> int | None:
        """`seq` of the frame whose parts are held, or None if no part is held."""
        return self._parts[0].seq if self._parts else None

    @property
    def next_index(self) -> int:
        """Index of the part that must come next."""
        return len(self._parts)

    @property
    def held_bytes(self) -> int:
        """Bytes of tensor data in the parts that are held."""
        return sum(part.data_bytes for part in self._parts)

    def add(self, part: Frame) -> Frame | None:
        """Take the next part. Return the whole frame if it was the last part, otherwise None.

        Raises:
            MessageError: `sequence_gap` if the part is out of order; `malformed` if it contradicts the earlier parts.
        """
        fragment = part.fragment
        if fragment is None or fragment.index != self.next_index:
            raise MessageError(FailureCode.SEQUENCE_GAP, "a part of the frame is missing", part.address)
        expected_offset_bytes = self.held_bytes
        if self._parts and _header(part) != _header(self._parts[0]):
            raise MessageError(FailureCode.MALFORMED, "parts of one frame differ in their header", part.address)
        if fragment.offset_bytes != expected_offset_bytes:
            raise MessageError(FailureCode.MALFORMED, "a part does not begin where the last one ended", part.address)
        self._parts.append(part)
        if fragment.index + 1 < fragment.count:
            return None
        return self._join()

    def clear(self) -> None:
        """Drop the parts that are held."""
        self._parts.clear()

    def _join(self) -> Frame:
        first = self._parts[0]
        data = b"".join(part.tensors[0].data for part in self._parts)
        self.clear()
        return replace(first, tensors=(replace(first.tensors[0], data=data),), fragment=None)


def _header(part: Frame) -> Frame:
    """Return the part without its data, index and offset. The rest is equal in all parts of a frame."""
    tensor = replace(part.tensors[0], data=b"")
    count = 0 if part.fragment is None else part.fragment.count
    return replace(part, tensors=(tensor,), fragment=Fragment(0, count, 0, 0))


def _header_bytes(frame: Frame) -> int:
    empty = tuple(replace(tensor, data=b"") for tensor in frame.tensors)
    largest = Fragment(MAX_FRAGMENTS, MAX_FRAGMENTS, MAX_TENSOR_BYTES, MAX_TENSOR_BYTES)
    header = replace(frame, tensors=empty, fragment=largest)
    return len(serialise_frame(header)) + _LENGTH_PREFIX_BYTES * max(1, len(frame.tensors))


def _part(frame: Frame, index: int, count: int, part_bytes: int) -> Frame:
    tensor = frame.tensors[0]
    offset_bytes = index * part_bytes
    data = tensor.data[offset_bytes : offset_bytes + part_bytes]
    fragment = Fragment(index, count, offset_bytes, len(tensor.data))
    return replace(frame, tensors=(replace(tensor, data=data),), fragment=fragment)

"""How many bytes a decode step costs on the seams of a route of two stages, early and late in a sequence."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.v1 import frame_pb2
from tests.integration.native.native_routes import native_route
from tests.simulators.fake_shards import open_all, terms

pytestmark = pytest.mark.native

WIDTH = 576  # of the demo's model
ROW_BYTES = WIDTH * 4
BESIDE_ROW_BYTES = 256
POSITIONS = (10, 2_000)


async def frames_of(folder: Path, prompt_tokens: int, max_tokens: int, chunk_rows: int = 128) -> list[frame_pb2.Frame]:
    """Everything that two stages sent each other for one generation. `folder` holds their sockets."""
    given = terms(prompt=(65,) * prompt_tokens, max_tokens=max_tokens, chunk_rows=chunk_rows, end_tokens=())
    async with native_route(folder, [4], width=WIDTH) as running:
        await (await open_all(running.route, given)).generate()
        return [message.frame for message in running.route.frames]


def size_at(frames: list[frame_pb2.Frame], position: int, from_stage: int) -> int:
    """Bytes of the one decode frame of this position that a stage sent."""
    (found,) = (
        frame
        for frame in frames
        if (frame.from_stage, frame.position, frame.phase) == (from_stage, position, frame_pb2.PHASE_DECODE)
    )
    return found.ByteSize()


async def test_decode_frames_are_small_early_and_late(tmp_path: Path) -> None:
    """Source: docs/wire.md, Frames. The control: a frame of two rows is over the bound of one."""
    sizes: dict[int, tuple[int, int]] = {}
    largest = 0
    for position in POSITIONS:
        frames = await frames_of(tmp_path, position - 4, 8)
        sizes[position] = (size_at(frames, position, 0), size_at(frames, position, 1))
        largest = max(largest, *(frame.ByteSize() for frame in frames if frame.phase == frame_pb2.PHASE_DECODE))
    pairs = await frames_of(tmp_path, 6, 2, chunk_rows=2)
    two_rows = max(frame.ByteSize() for frame in pairs if frame.from_stage == 0 and frame.rows == 2)

    bound = ROW_BYTES + BESIDE_ROW_BYTES
    for position, (seam, ring) in sizes.items():
        print(
            f"decode frame at position {position}: {seam} bytes on the seam ({seam - ROW_BYTES} beside the row of "
            f"{ROW_BYTES}), {ring} on the way back; at most {bound}; control, two rows: {two_rows}"
        )
    assert len(sizes) == len(POSITIONS)
    for seam, ring in sizes.values():
        assert ROW_BYTES < seam <= bound
        assert 0 < ring <= BESIDE_ROW_BYTES
    assert largest <= bound
    assert two_rows > bound

"""A rewind on the wire: a worker in the middle of a route takes rows back whose memory it cannot cut off."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from meshnet.failure_codes import FailureCode
from meshnet.frame import (
    Ack,
    Codec,
    DType,
    EdgeMessage,
    Frame,
    Phase,
    StageFailure,
    Tensor,
    read_edge_message,
    read_frame,
    write_edge_message,
    write_frame,
)
from meshnet.ids import Address, Edge
from meshnet.v1 import session_pb2, worker_pb2
from tests.integration.native.native_routes import WORKER
from tests.simulators.bridged_route import BridgedWorker
from tests.simulators.fake_shards import KEY, terms
from tests.simulators.route_terms import spec_for
from tests.simulators.tiny_models import TINY_MODELS, TinyModel, tiny_model
from tests.simulators.worker_process import running_program

pytestmark = [pytest.mark.native, pytest.mark.timeout(120)]

WAIT_S = 30.0
PROMPT_ROWS = 40
SINGLE_ROWS = 24
# Of layers that take no token ids.
LAYERS = {"deepseek4": (3, 5), "gemma3": (1, 3), "llama": (1, 3), "qwen35": (1, 3)}
MODELS = [model for model in TINY_MODELS if model.architecture in LAYERS]


class MiddleStage:
    """Stage 1 of 3, whose neighbours the test plays."""

    def __init__(self, worker: BridgedWorker, width: int) -> None:
        self._worker, self._width, self._seq = worker, width, 0
        self._messages = self._read()

    async def _read(self) -> AsyncIterator[worker_pb2.BridgeMessage]:
        async for batch in self._worker.batches():
            for message in batch.messages:
                yield message

    def hidden(self, position: int, rows: int, salt: int = 0) -> Tensor:
        """The rows at a position, the same each time."""
        values: list[float] = []
        for row in range(position, position + rows):
            drawn = random.Random(1000 * salt + row)
            values += [drawn.uniform(-1.0, 1.0) for _ in range(self._width)]
        return Tensor("hidden", DType.F32, (rows, self._width), Codec.RAW, struct.pack(f"<{len(values)}f", *values))

    async def give(self, position: int, rows: int = 1, *, rewind: bool = False, salt: int = 0) -> bytes | StageFailure:
        """Rows in; the rows that come out, or the failure."""
        phase = Phase.PREFILL if rows > 1 else Phase.DECODE
        tensors = (self.hidden(position, rows, salt),)
        frame = Frame(
            KEY.session,
            KEY.epoch,
            0,
            1,
            self._seq,
            phase,
            position,
            rows,
            prompt_end=rows > 1,
            tensors=tensors,
            rewind=rewind,
        )
        await self._worker.send(worker_pb2.BridgeMessage(frame=write_frame(frame)))
        while True:
            message = await asyncio.wait_for(anext(self._messages), WAIT_S)
            if message.HasField("frame"):
                given = read_frame(message.frame)
                ack = EdgeMessage.on(Address(KEY, Edge(1, 2)), Ack(self._seq))
                await self._worker.send(worker_pb2.BridgeMessage(edge=write_edge_message(ack)))
                self._seq += 1
                return given.tensors[0].data
            body = read_edge_message(message.edge).body
            if isinstance(body, StageFailure):
                return body


def load_request(model: TinyModel, folder: Path, *, keeps_states: bool) -> worker_pb2.LoadRequest:
    """The middle stage of a tiny model."""
    begin, end = LAYERS[model.architecture]
    return worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=str(tiny_model(model, folder)),
        layers=session_pb2.LayerRange(layer_begin=begin, layer_end=end),
        context_length=256,
        max_sessions=2,
        threads=1,
        flash_attention=True,
        artifact_digest=b"a" * 32,
        keep_rewind_states=keeps_states,
    )


@contextlib.asynccontextmanager
async def middle_stage(request: worker_pb2.LoadRequest, folder: Path) -> AsyncIterator[MiddleStage]:
    """A loaded worker with an open session."""
    async with running_program(WORKER, folder / "w.sock") as program:
        worker = BridgedWorker(program.socket_path)
        contract = await worker.load(request)
        given = terms(prompt=(1,) * PROMPT_ROWS, max_tokens=100, end_tokens=())
        spec = spec_for(given, 1, [contract] * 3)
        opened = await worker.stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec), timeout=WAIT_S)
        assert opened.accepted, opened.message
        yield MiddleStage(worker, contract.inputs[0].elements_per_row)
        await worker.close()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.architecture)
async def test_rows_that_were_taken_back_were_never_there(model: TinyModel, tmp_path: Path) -> None:
    request = load_request(model, tmp_path, keeps_states=True)
    async with middle_stage(request, tmp_path) as stage:
        await stage.give(0, PROMPT_ROWS)
        never = [await stage.give(PROMPT_ROWS + row) for row in range(SINGLE_ROWS)]
        compared = 0
        for back in (1, 9, 3, SINGLE_ROWS):
            for row in range(SINGLE_ROWS - back, SINGLE_ROWS):
                found = await stage.give(PROMPT_ROWS + row, rewind=row == SINGLE_ROWS - back)
                assert found == never[row], (back, row)
                compared += 1
        # The control: another row in the place of one that was taken back.
        other = await stage.give(PROMPT_ROWS + 5, rewind=True, salt=1)
        assert isinstance(other, bytes)
        assert other != never[5]
        assert await stage.give(PROMPT_ROWS + 6) != never[6]
        within_prompt = await stage.give(3, rewind=True)
    print({"architecture": model.architecture, "rows": compared})
    assert compared == 1 + 9 + 3 + SINGLE_ROWS
    if model.architecture in {"deepseek4", "qwen35"}:
        assert isinstance(within_prompt, StageFailure)
        assert within_prompt.code == FailureCode.REWIND_REFUSED
        assert "the nearest one before it is to 0" in within_prompt.message
    else:
        assert isinstance(within_prompt, bytes)  # cut off; gemma3's window still sees all of it


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.architecture)
async def test_a_load_that_does_not_ask_keeps_no_states(model: TinyModel, tmp_path: Path) -> None:
    """A memory that can be cut off needs none; the others refuse by name."""
    async with middle_stage(load_request(model, tmp_path, keeps_states=False), tmp_path) as stage:
        await stage.give(0, PROMPT_ROWS)
        never = [await stage.give(PROMPT_ROWS + row) for row in range(SINGLE_ROWS)]
        found = await stage.give(PROMPT_ROWS + SINGLE_ROWS - 1, rewind=True)
    if model.architecture in {"deepseek4", "qwen35"}:
        assert isinstance(found, StageFailure)
        assert found.code == FailureCode.REWIND_REFUSED
        assert "the nearest one before it is to 0" in found.message
    else:
        assert found == never[-1]  # cut off; gemma3's window still sees all of it

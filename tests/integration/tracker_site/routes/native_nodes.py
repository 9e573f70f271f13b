"""Nodes with native workers: the agent's own sessions in this process, on a real relay and real worker processes.

Only the control connection is replaced, as in `fake_nodes`. The FakeEngine's steps are timed sleeps, so that rates
depend on the engine and hardly on how busy the machine is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from meshnet.errors import RouteError
from meshnet.keys import SigningKey
from meshnet.shard_facts import Carrier
from meshnet.v1 import control_pb2, session_pb2
from node_app.sessions.node_sessions import NodeSessions
from node_app.worker.client import WorkerClient
from tests.integration.native.native_routes import WORKER
from tests.integration.tracker_site.routes.fake_nodes import DEADLINE_S
from tests.simulators.fake_shards import N_LAYERS, WIDTH, load_request
from tests.simulators.offers import make_offer
from tests.simulators.worker_process import running_program
from tracker_site.routes.planning.offers import Offer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from meshnet.ids import SessionKey
    from tests.simulators.worker_process import WorkerProgram

LOAD_SILENCE_S = 20.0


@dataclass(frozen=True)
class NativeShape:
    """What a node holds, and what its volunteer allows.

    Attributes:
        step_us: the engine's time for one row and layer.
        turn_path: the compute turn of its machine; empty: it shares the machine with nobody.
    """

    name: str
    layer_begin: int
    layer_end: int
    step_us: int
    turn_path: str = ""
    carrier: Carrier = Carrier.AUTO
    context_length: int = 65_536


class NativeNode:
    """One node: the host of its sessions. `open` and `close` stand for its control connection."""

    def __init__(self, shape: NativeShape, program: WorkerProgram, worker: WorkerClient) -> None:
        self.shape = shape
        self._program = program
        self._worker = worker
        self._signing_key = SigningKey.generate()
        self._sessions = NodeSessions(self._signing_key, self, lambda: 0.5)
        self._answers: dict[int, asyncio.Future[control_pb2.NodeMessage]] = {}
        self._numbers = count(1)
        self._is_on_relay = asyncio.Event()
        self._contract = session_pb2.BoundaryContract()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, shape: NativeShape, folder: Path, relay_url: str) -> AsyncIterator[NativeNode]:
        """Start a worker, load it, and join the relay."""
        socket = folder / f"{shape.name}.sock"
        async with running_program(WORKER, socket, "--link-listen", "127.0.0.1:0") as program:
            worker = WorkerClient(socket)
            node = cls(shape, program, worker)
            tasks: list[asyncio.Task[None]] = []
            try:
                await node._load()
                tasks.append(asyncio.create_task(node._sessions.data.run(lambda: relay_url)))
                tasks.append(asyncio.create_task(node._sessions.carry(worker)))
                async with asyncio.timeout(DEADLINE_S):
                    await node._is_on_relay.wait()
                yield node
            finally:
                node.resume()
                node._sessions.stages.end_all("cancelled", "the test is over")
                await node._sessions.stages.drain()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await worker.close()

    async def _load(self) -> None:
        shape = self.shape
        request = load_request(
            shape.layer_begin, shape.layer_end, step_us=shape.step_us, context_length=shape.context_length
        )
        request.turn_path = shape.turn_path
        loaded = await self._worker.load(request, LOAD_SILENCE_S)
        self._contract = loaded.contract

    # --- what a machine may suffer ---

    def freeze(self) -> None:
        """Stop the worker where it is; its agent lives on."""
        os.kill(self._program.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on. Idempotent."""
        if self._program.process.returncode is None:
            os.kill(self._program.process.pid, signal.SIGCONT)

    # --- for the site ---

    def offer(self) -> Offer:
        shape, ready = self.shape, self._program.ready
        is_tail = shape.layer_end == N_LAYERS
        return make_offer(
            node_id=shape.name,
            layer_begin=shape.layer_begin,
            layer_end=shape.layer_end,
            n_layers=N_LAYERS,
            contract_digest=self._contract.contract_digest,
            recipe=self._contract.recipe,
            exact_class=b"",
            decode_ms_per_layer=shape.step_us / 1000,
            prefill_ms_per_layer=shape.step_us / 1000,
            tail_ms=0.0,
            kv_cells_free=shape.context_length * 8,
            sessions_free=8,
            carrier=shape.carrier,
            link_address=str(ready["link_address"]),
            link_fingerprint=bytes.fromhex(str(ready["link_fingerprint"])),
            seam_bytes_per_row=0 if is_tail else WIDTH * 4,
            public_key=self._signing_key.public_key,
        )

    async def open(self, request: control_pb2.OpenStage) -> control_pb2.StageOpened:
        """Raises `RouteError` with the node's own code where it refuses."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        named = control_pb2.OpenStage()
        named.CopyFrom(request)
        named.request_id = number
        self._sessions.stages.open(named)
        message = await answer
        if message.HasField("refused"):
            raise RouteError(message.refused.code, "Refused", message.refused.message)
        return message.opened

    def close(self, key: SessionKey) -> None:
        self._sessions.stages.close(key, "closed by the site")

    # --- for the sessions ---

    def check_admission(self, request: control_pb2.OpenStage) -> None:
        """Everything is taken; the worker decides."""

    def serving_worker(self) -> WorkerClient:
        return self._worker

    def send_to_site(self, message: control_pb2.NodeMessage) -> None:
        if message.HasField("ended"):
            return  # the Gateway hears of it from the worker, over the relay
        request_id = (message.opened if message.HasField("opened") else message.refused).request_id
        answer = self._answers.pop(request_id)
        if not answer.cancelled():
            answer.set_result(message)

    def on_sessions_changed(self) -> None:
        """Nobody counts them here."""

    def on_data_changed(self, is_connected: bool) -> None:
        if is_connected:
            self._is_on_relay.set()

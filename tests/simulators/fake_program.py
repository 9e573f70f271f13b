"""A worker with the FakeEngine alone, which may be slow on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from meshnet import __version__
from meshnet.constants import GRAPH_SEMANTICS_VERSION, WIRE_VERSION, WIRE_VERSION_MIN
from meshnet.v1 import frame_pb2, worker_pb2
from node_app.reference_worker.sessions.machine import StageMachine
from tests.simulators.faults import Faults
from tests.simulators.probe import run_probe, spoil
from tests.simulators.shard_load import plan_load
from tests.simulators.stage_machine import SimulatedMachine


class FakeProgram:
    """One event loop."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    @property
    def version_json(self) -> str:
        version = {
            "worker": f"simulator {__version__}",
            "wire": {"min": WIRE_VERSION_MIN, "max": WIRE_VERSION},
            "contract": {"graph_semantics": GRAPH_SEMANTICS_VERSION},
            "exact_class": {"backend": "fake"},
        }
        return json.dumps(version)

    @property
    def devices_json(self) -> str:
        return '{"devices": []}'

    async def load(self, request: worker_pb2.LoadRequest, progress: Callable[[float], None]) -> SimulatedMachine:
        return SimulatedMachine(plan_load(request), self._faults)

    async def probe(self, machine: StageMachine, request: worker_pb2.ProbeRequest) -> list[frame_pb2.Tensor]:
        if not isinstance(machine, SimulatedMachine):
            raise TypeError(f"a simulated machine is needed, not {type(machine).__name__}")
        await asyncio.sleep(self._faults.step_delay_ms / 1000)
        return [spoil(tensor, self._faults.wrong_probe) for tensor in run_probe(machine.load, request)]

"""A stage machine that does what its faults say."""

from __future__ import annotations

from meshnet.failure_codes import FailureCode
from meshnet.frame import MessageError, TokenEvent
from meshnet.v1 import session_pb2
from node_app.reference_worker.sessions.machine import StageMachine
from node_app.reference_worker.sessions.output import StageOutput
from tests.simulators.engine_step import spoiled
from tests.simulators.faults import Faults
from tests.simulators.shard_load import ShardLoad


class SimulatedMachine(StageMachine):
    """Not thread-safe; owned by one event loop. `faults` may change at any time."""

    load: ShardLoad

    def __init__(self, load: ShardLoad, faults: Faults) -> None:
        class Output(StageOutput):
            def told(self, event: TokenEvent) -> TokenEvent | None:
                return spoiled(event, faults)

        super().__init__(load, Output)
        self._faults = faults

    def open(self, spec: session_pb2.SessionSpec, now_s: float) -> None:
        if self._faults.refuse_open:
            raise MessageError(FailureCode(self._faults.refuse_open), "refused on request")
        super().open(spec, now_s)

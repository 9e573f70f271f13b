"""What the parts of a simulated worker share."""

from __future__ import annotations

from node_app.reference_worker.sessions.state import ReferenceState
from tests.simulators.faults import Faults
from tests.simulators.stage_machine import SimulatedMachine


class SimulatedState(ReferenceState):
    """The worker's state, and its faults. One event loop."""

    machine: SimulatedMachine | None

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.faults = faults

"""The error for a stage that this node does not open or keep open, and the failure codes that only a node gives.

Source: docs/wire.md, Failure codes.
"""

from __future__ import annotations

from typing import Final

from meshnet.errors import RouteError
from meshnet.failure_codes import NodeCode

# The session's worker died or was judged dead. `stage_lost` would blame a peer of the stage.
WORKER_LOST: Final = NodeCode.WORKER_LOST.value
# The worker did not answer a call within its deadline.
WORKER_TIMEOUT: Final = NodeCode.WORKER_TIMEOUT.value
# The connection to the relay was lost for longer than a session can wait.
RELAY_LOST: Final = NodeCode.RELAY_LOST.value
# The worker was replaced after the route was planned; the peers of the stage would still wait for the old one.
WORKER_CHANGED: Final = NodeCode.WORKER_CHANGED.value


class StageRefusedError(RouteError):
    """This node does not open the stage; the site plans another route."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, "Stage refused", message)

"""A stage that this node does not open, or not any longer.

Invariant: the codes below are those that only a node can give. Source: docs/wire.md, Failure codes.
"""

from __future__ import annotations

from typing import Final

from meshnet.errors import RouteError
from meshnet.failure_codes import NodeCode

# The worker of a session died or was judged dead. Not the stage's peers' fault, so not `stage_lost`.
WORKER_LOST: Final = NodeCode.WORKER_LOST.value
# The worker did not answer a call within its deadline.
WORKER_TIMEOUT: Final = NodeCode.WORKER_TIMEOUT.value
# The relay connection stayed away for longer than a session can wait.
RELAY_LOST: Final = NodeCode.RELAY_LOST.value
# The route was planned with a worker that has been replaced since; its neighbours would wait for one that is gone.
WORKER_CHANGED: Final = NodeCode.WORKER_CHANGED.value


class StageRefusedError(RouteError):
    """This node does not open the stage; the site plans another route."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, "Stage refused", message)

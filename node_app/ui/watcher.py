"""Asks the agent for its status about once a second, and sends it the volunteer's errands.

Invariants: `contact.py` and `errands.py` decide, the watcher does not. One status request is in flight at a time. The
address file is read before each request, so a restarted agent is found. After `close` it sends no request and emits no
signal. GUI thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QTimer, Signal

from meshnet.errors import MeshnetError
from node_app.status.agent_status import StatusError, parse_log
from node_app.status.local_address import read_address
from node_app.ui.client import AgentClient
from node_app.ui.contact import Answered, Asked, BadAddress, Cause, NoAddress, Observation, Unanswered, observe
from node_app.ui.errands import Errands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from node_app.status.local_address import AgentAddress
    from node_app.ui.contact import Outcome, Reply
    from node_app.ui.errands import Errand

POLL_MS: Final = 1000


class AgentWatcher(QObject):
    """Watches the agent whose address file is in `state_dir`."""

    changed = Signal()  # there is a new observation, or the errands changed
    observed = Signal(object, object)  # the last observation and the new one
    log_read = Signal(object)  # the last log lines, oldest first

    def __init__(self, state_dir: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.observation = Observation()
        self.errands = Errands()
        self.is_log_wanted = False
        self._state_dir = state_dir
        self._client = AgentClient(self)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._look)
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """The number of requests that have not ended."""
        return self._client.in_flight

    def start(self) -> None:
        """Ask for the status now, and again POLL_MS after each answer."""
        self._look()

    def run(self, errand: Errand) -> None:
        """Send an errand to the agent; if another is running, do nothing."""
        begun = self.errands.begin(errand)
        if begun is self.errands:
            return
        self._set_errands(begun)
        address = self._address()
        if isinstance(address, NoAddress | BadAddress):
            self._finish_errand(Unanswered(Cause.NOBODY_LISTENS))
        else:
            self._client.post(address, errand.value, self._finish_errand)

    def close(self) -> None:
        """Stop asking and end every request. Idempotent."""
        self._is_closed = True
        self._timer.stop()
        self._client.close()

    def _address(self) -> AgentAddress | NoAddress | BadAddress:
        try:
            return read_address(self._state_dir) or NoAddress()
        except MeshnetError as error:
            return BadAddress(error.message)

    def _look(self) -> None:
        address = self._address()
        if isinstance(address, NoAddress | BadAddress):
            self._take(address)
            return
        self._client.get(address, "/status", self._told(address.pid))
        if self.is_log_wanted:
            self._client.get(address, "/log", self._take_log)

    def _told(self, pid: int) -> Callable[[Reply], None]:
        return lambda reply: self._take(Asked(pid, reply))

    def _take(self, outcome: Outcome) -> None:
        before, self.observation = self.observation, observe(self.observation, outcome)
        self.errands = self.errands.look(self.observation, time.monotonic())
        self.changed.emit()
        self.observed.emit(before, self.observation)
        if not self._is_closed:
            self._timer.start(POLL_MS)

    def _take_log(self, reply: Reply) -> None:
        if not isinstance(reply, Answered):
            return  # the status request reports the failure
        try:
            self.log_read.emit(parse_log(reply.body))
        except StatusError:
            return  # an agent without a log; its status is shown nevertheless

    def _finish_errand(self, reply: Reply) -> None:
        self._set_errands(self.errands.receive(reply, time.monotonic()))
        if self._timer.isActive():
            self._timer.start(0)  # show the result at once

    def _set_errands(self, errands: Errands) -> None:
        self.errands = errands
        self.changed.emit()

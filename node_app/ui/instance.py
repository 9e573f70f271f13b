"""Allows one tray per state directory: a second tray asks the first to show its window, and ends.

Invariants: a lock file with the process number decides, so a killed tray does not keep a new one from starting. The
socket only carries the request to show the window, and only this user may connect. GUI thread.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

if TYPE_CHECKING:
    from pathlib import Path

LOCK_FILE: Final = "tray.lock"
REQUEST_TIMEOUT_MS: Final = 2000


class TrayInstance(QObject):
    """This process's claim to be the only tray of `state_dir`, which must exist."""

    show_requested = Signal()

    def __init__(self, state_dir: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = f"meshnet-tray-{hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:24]}"
        self._lock = QLockFile(str(state_dir / LOCK_FILE))
        # A tray runs for weeks, so a lock's age says nothing: it is stale only if its process is gone.
        self._lock.setStaleLockTime(0)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)

    def claim(self) -> bool:
        """Return True if this is the only tray; if another runs, ask it to show its window and return False."""
        if not self._lock.tryLock(0):
            self._request_show()
            return False
        # This process holds the lock, so a socket of that name was left behind by a killed tray.
        QLocalServer.removeServer(self._name)
        self._server.listen(self._name)  # if it fails, a second tray still ends, but shows no window
        return True

    def release(self) -> None:
        """Give up the claim, so that another tray may start. Idempotent."""
        self._server.close()
        self._lock.unlock()

    def _request_show(self) -> None:
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if socket.waitForConnected(REQUEST_TIMEOUT_MS):
            socket.disconnectFromServer()

    def _on_connection(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.deleteLater()
            self.show_requested.emit()

"""The tray's application: connects window, icon and watcher, and decides what closing and quitting do.

Invariants: if the desktop shows no panel icon, the window is never hidden, so there is always a way back. After the
node was asked to quit, the tray waits until the node is gone. `close` releases timers, requests and icon. GUI thread.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from node_app.system.state_directory import choose_state_dir
from node_app.ui.announcing import announce
from node_app.ui.errands import Errand
from node_app.ui.quit_question import QuitQuestion
from node_app.ui.tray_icon import TrayIcon
from node_app.ui.view import present
from node_app.ui.watcher import AgentWatcher
from node_app.ui.window import NodeWindow

if TYPE_CHECKING:
    from pathlib import Path

    from node_app.ui.contact import Observation
    from node_app.ui.view import View


def start_command(state_dir: Path) -> str:
    """Return a command line that starts a node with this tray's state directory."""
    lines = ["meshnet node --site https://SITE", "--token TOKEN --gguf MODEL.gguf"]
    if state_dir != choose_state_dir(None, {}):
        lines.append(f"--state-dir {shlex.quote(str(state_dir))}")
    return " \\\n  ".join(lines)


class TrayApplication(QObject):
    """The tray's window, icon and watcher for one state directory. The caller ends it with `close`."""

    ended = Signal()  # the process may go

    def __init__(self, state_dir: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.watcher = AgentWatcher(state_dir, self)
        self.window = NodeWindow(start_command(state_dir))
        self.tray = TrayIcon(self)
        self.question = QuitQuestion(self.window)
        self.view = self._present()
        self._connect()

    def _connect(self) -> None:
        window, tray, watcher = self.window, self.tray, self.watcher
        for pause in (window.pause_clicked, tray.pause_chosen):
            pause.connect(lambda: watcher.run(Errand.PAUSE))
        for resume in (window.resume_clicked, tray.resume_chosen):
            resume.connect(lambda: watcher.run(Errand.RESUME))
        for quitting in (window.quit_clicked, tray.quit_chosen):
            quitting.connect(self.ask_to_quit)
        window.log_toggled.connect(self._want_log)
        window.closing.connect(self._on_closing)
        tray.open_chosen.connect(self.show_window)
        self.question.node_chosen.connect(lambda: watcher.run(Errand.QUIT))
        self.question.tray_chosen.connect(self.ended)
        watcher.changed.connect(self._refresh)
        watcher.observed.connect(self._announce)
        watcher.log_read.connect(window.log_panel.show_lines)

    def start(self, *, is_hidden: bool) -> None:
        """Start the watcher and show the window; if `is_hidden` and the desktop has a panel, show only the icon."""
        self.watcher.start()
        if not is_hidden or not self.tray.is_there:
            self.show_window()

    def show_window(self) -> None:
        """Bring the window to the front."""
        self.window.showNormal()
        self.window.raise_()
        self.window.activateWindow()

    def ask_to_quit(self) -> None:
        """Quit the tray; if a node runs, ask first whether to quit the node too."""
        status = self.watcher.observation.status
        if not self.view.can_quit_node or status is None:
            self.ended.emit()
            return
        self.show_window()
        self.question.ask(status.sessions)

    def close(self) -> None:
        """Hide window and icon, stop the watcher and end its requests. Idempotent."""
        self.watcher.close()
        self.tray.close()
        self.window.hide()

    def _present(self) -> View:
        return present(self.watcher.observation, self.watcher.errands)

    def _refresh(self) -> None:
        self.view = self._present()
        self.window.show_view(self.view)
        self.tray.show_view(self.view)
        if self.watcher.errands.has_ended:
            self.ended.emit()
        elif not self.window.isVisible() and not self.tray.is_there:
            self.show_window()  # the panel is gone, and the icon with it

    def _announce(self, before: Observation, after: Observation) -> None:
        said = announce(before, after)
        if said is not None:
            self.tray.announce(said)

    def _want_log(self, is_wanted: bool) -> None:
        self.watcher.is_log_wanted = is_wanted

    def _on_closing(self) -> None:
        if self.tray.is_there:
            self.window.hide()
        else:
            self.ended.emit()  # the node goes on; without an icon nobody could open the window again

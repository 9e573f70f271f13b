"""The icon in the panel and its menu.

Invariants: it shows a `View`, and its signals say which menu entry was chosen. If the desktop has no panel, there is no
icon; the desktop is asked again with each view, since panels come and go. GUI thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal, SignalInstance
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from node_app.ui.icons import make_icon
from node_app.ui.view import Mood

if TYPE_CHECKING:
    from PySide6.QtGui import QAction

    from node_app.ui.announcing import Announcement
    from node_app.ui.view import View


class TrayIcon(QObject):
    """The icon in the panel. It owns its menu."""

    open_chosen = Signal()
    pause_chosen = Signal()
    resume_chosen = Signal()
    quit_chosen = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._icons = {mood: make_icon(mood) for mood in Mood}
        self._icon = QSystemTrayIcon(self)
        self.menu = QMenu()
        self.state_action = self.menu.addAction("")
        self.state_action.setEnabled(False)
        self.menu.addSeparator()
        self.open_action = self._add("&Open window", self.open_chosen)
        self.pause_action = self._add("&Pause", self.pause_chosen)
        self.resume_action = self._add("&Resume", self.resume_chosen)
        self.menu.addSeparator()
        self.quit_action = self._add("&Quit...", self.quit_chosen)
        self._icon.setContextMenu(self.menu)
        self._icon.activated.connect(self._on_activated)
        self._icon.messageClicked.connect(self.open_chosen)

    def _add(self, text: str, signal: SignalInstance) -> QAction:
        action = self.menu.addAction(text)
        action.triggered.connect(signal)
        return action

    @property
    def is_there(self) -> bool:
        """Whether the desktop has a panel now that can show the icon."""
        return QSystemTrayIcon.isSystemTrayAvailable()

    def show_view(self, view: View) -> None:
        """Show a view on icon and menu; if the desktop has got a panel since the last view, the icon appears."""
        self._icon.setIcon(self._icons[view.mood])
        self._icon.setToolTip(view.tooltip)
        self.state_action.setText(view.headline)
        self.pause_action.setVisible(not view.can_resume)
        self.pause_action.setEnabled(view.can_pause)
        self.resume_action.setVisible(view.can_resume)
        if self.is_there and not self._icon.isVisible():
            self._icon.show()

    def announce(self, announcement: Announcement) -> None:
        """Show a desktop notification, if the desktop supports them."""
        if self._icon.isVisible() and QSystemTrayIcon.supportsMessages():
            self._icon.showMessage(announcement.title, announcement.text, self._icon.icon())

    def close(self) -> None:
        """Remove the icon. Idempotent."""
        self._icon.hide()
        self.menu.close()

    def _on_activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason is not QSystemTrayIcon.ActivationReason.Context:
            self.open_chosen.emit()

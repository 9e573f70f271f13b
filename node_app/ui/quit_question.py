"""Asks what to quit: the node, or only what looks at it.

Invariant: never blocks; answers by a signal, and closing the question in any way means to stay. GUI thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMessageBox

from node_app.ui.figures import as_sessions

if TYPE_CHECKING:
    from PySide6.QtWidgets import QAbstractButton, QWidget


class QuitQuestion(QMessageBox):
    """The question; lives as long as its window."""

    node_chosen = Signal()
    tray_chosen = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setIcon(QMessageBox.Icon.Question)
        self.setWindowTitle("Quit Meshnet")
        self.setText("Quit the node too?")
        self.node_button = self.addButton("Quit &node", QMessageBox.ButtonRole.DestructiveRole)
        self.tray_button = self.addButton("Only this &window", QMessageBox.ButtonRole.AcceptRole)
        self.stay_button = self.addButton(QMessageBox.StandardButton.Cancel)
        self.setDefaultButton(self.tray_button)
        self.setEscapeButton(self.stay_button)
        self.buttonClicked.connect(self._on_clicked)

    def ask(self, sessions: int) -> None:
        """Ask, unless it is being asked already.

        Args:
            sessions: that would be ended with the node.
        """
        ended = f" With it {as_sessions(sessions)} would end." if sessions else ""
        self.setInformativeText(f"Without this window the node goes on serving.{ended}")
        self.open()

    def _on_clicked(self, button: QAbstractButton) -> None:
        if button is self.node_button:
            self.node_chosen.emit()
        elif button is self.tray_button:
            self.tray_chosen.emit()

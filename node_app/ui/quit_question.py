"""Asks whether to quit the node too, or only the tray.

Invariant: it never blocks and answers by a signal. If the question is closed without a choice, nothing is quit. GUI
thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMessageBox

from node_app.ui.figures import as_sessions

if TYPE_CHECKING:
    from PySide6.QtWidgets import QAbstractButton, QWidget


class QuitQuestion(QMessageBox):
    """The dialog that asks the question. The parent window owns it."""

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
        """Show the dialog; if it is shown already, only its text changes.

        Args:
            sessions: number of running sessions, which would end with the node.
        """
        ended = f" If you quit the node, {as_sessions(sessions)} would end." if sessions else ""
        self.setInformativeText(f"If you close only this window, the node goes on serving.{ended}")
        self.open()

    def _on_clicked(self, button: QAbstractButton) -> None:
        if button is self.node_button:
            self.node_chosen.emit()
        elif button is self.tray_button:
            self.tray_chosen.emit()

"""The tail of the agent's log, read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QPlainTextEdit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtWidgets import QWidget


class LogPanel(QPlainTextEdit):
    """Shows lines; follows the newest one unless the reader scrolled away from it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, readOnly=True)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)  # broken lines are counted too late to follow them
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setAccessibleName("Log of the node")
        self.setPlaceholderText("Nothing yet")
        # Tab leaves the panel: it is not for typing.
        self.setTabChangesFocus(True)
        self._lines: tuple[str, ...] = ()
        self._is_following = True
        bar = self.verticalScrollBar()
        # Only what the reader does is told by this signal; the end also moves by itself, with the panel's size.
        bar.actionTriggered.connect(self._see_place)
        bar.rangeChanged.connect(self._follow)

    def show_lines(self, lines: Sequence[str]) -> None:
        """Replace the text; a selection and the place of a reader stay while nothing is new."""
        if tuple(lines) == self._lines:
            return
        self._lines = tuple(lines)
        place = self.verticalScrollBar().value()
        self.setPlainText("\n".join(lines))
        self.verticalScrollBar().setValue(place)
        self._follow()

    def _see_place(self) -> None:
        bar = self.verticalScrollBar()
        self._is_following = bar.sliderPosition() >= bar.maximum()

    def _follow(self) -> None:
        if self._is_following:
            self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

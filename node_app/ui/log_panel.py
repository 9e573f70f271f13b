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
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setAccessibleName("Log of the node")
        self.setPlaceholderText("Nothing yet")
        # Tab leaves the panel: it is not for typing.
        self.setTabChangesFocus(True)
        self._lines: tuple[str, ...] = ()
        self._is_following = True
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._see_place)
        # Long lines are broken, and so counted, only when they are shown or the width changes.
        bar.rangeChanged.connect(self._follow)

    def show_lines(self, lines: Sequence[str]) -> None:
        """Replace the text; a selection and the place of a reader stay while nothing is new."""
        if tuple(lines) == self._lines:
            return
        self._lines = tuple(lines)
        place, was_following = self.verticalScrollBar().value(), self._is_following
        self.setPlainText("\n".join(lines))
        self._is_following = was_following
        if was_following:
            self._follow()
        else:
            self.verticalScrollBar().setValue(place)

    def _see_place(self, place: int) -> None:
        self._is_following = place >= self.verticalScrollBar().maximum()

    def _follow(self) -> None:
        if self._is_following:
            self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

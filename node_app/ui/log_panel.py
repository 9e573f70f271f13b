"""Shows the last lines of the agent's log, read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QPlainTextEdit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtWidgets import QWidget


class LogPanel(QPlainTextEdit):
    """Shows log lines and scrolls to the newest, unless the reader has scrolled away from the end."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, readOnly=True)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)  # Qt counts wrapped lines too late to follow the end
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setAccessibleName("Log of the node")
        self.setPlaceholderText("No log lines yet")
        # Tab moves to the next control, since nothing can be typed here.
        self.setTabChangesFocus(True)
        self._lines: tuple[str, ...] = ()
        self._is_following = True
        bar = self.verticalScrollBar()
        # The reader alone causes this signal; valueChanged also comes when the panel's size changes.
        bar.actionTriggered.connect(self._see_place)
        bar.rangeChanged.connect(self._follow)

    def show_lines(self, lines: Sequence[str]) -> None:
        """Show these lines instead of the present ones. If they are the same, nothing changes, so a selection stays."""
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

"""The tray's window.

Invariants: it shows a `View`, its signals say which button was clicked, and it does nothing else. Text from other
programs is shown as plain text. Every control has a name for screen readers and can be reached by keyboard. GUI thread.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFont, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from node_app.ui.figures import shorten
from node_app.ui.icons import make_icon
from node_app.ui.log_panel import LogPanel
from node_app.ui.view import Mood

if TYPE_CHECKING:
    from PySide6.QtGui import QCloseEvent

    from node_app.ui.view import Row, View

ICON_PX: Final = 48
WIDTH_PX: Final = 460
SPACING_PX: Final = 14
MARGIN_PX: Final = 18
HEADLINE_SCALE: Final = 1.5
LOG_HEIGHT_PX: Final = 220
LOG_WIDTH_PX: Final = 720
VALUE_LENGTH_MAX: Final = 60


class NodeWindow(QWidget):
    """Shows the state, figures, buttons and log of one node."""

    pause_clicked = Signal()
    resume_clicked = Signal()
    quit_clicked = Signal()
    log_toggled = Signal(bool)
    closing = Signal()

    def __init__(self, start_command: str) -> None:
        super().__init__()
        self.setWindowTitle("Meshnet node")
        self._icons = {mood: make_icon(mood) for mood in Mood}
        self._mood: Mood | None = None
        self.icon_label = QLabel()
        self.headline = _plain_label()
        self.detail = _plain_label()
        self.problem = _plain_label()
        self._values: dict[str, QLabel] = {}
        self._figures = QWidget()
        self._form = QFormLayout(self._figures)
        self.log_panel = LogPanel()
        self.command = _plain_label(start_command)
        self.copy_button = _button("&Copy", "Copy the command that starts a node")
        self._start_help = self._make_start_help()
        self.pause_button = _button("&Pause", "Take no new sessions")
        self.resume_button = _button("&Resume", "Take new sessions again")
        self.log_button = _button("Show &log", "Show the log of the node")
        self.quit_button = _button("&Quit...", "Quit the node, or only this window")
        self._lay_out()
        self._connect()

    # For the application

    def show_view(self, view: View) -> None:
        """Show a view in place of the last one. Every view that has rows has the same labels."""
        self._show_mood(view)
        self.headline.setText(view.headline)
        self.detail.setText(view.detail)
        self.detail.setVisible(bool(view.detail))
        self.problem.setText(view.problem)
        self.problem.setVisible(bool(view.problem))
        self._figures.setVisible(bool(view.rows))
        for row in view.rows:
            self._show_row(row)
        self._start_help.setVisible(view.needs_start)
        # One of the two buttons is shown. While an errand runs neither is allowed: the last one stays, but greyed.
        if view.can_pause or view.can_resume:
            self.pause_button.setVisible(view.can_pause)
            self.resume_button.setVisible(view.can_resume)
        self.pause_button.setEnabled(view.can_pause)
        self.resume_button.setEnabled(view.can_resume)
        self._fit()

    def value_of(self, label: str) -> str:
        """Return the text that is shown beside a label; for tests."""
        return self._values[label].text()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 - Qt's name
        """Keep the window open and emit `closing`, since the application decides."""
        event.ignore()
        self.closing.emit()

    # Inside

    def _fit(self) -> None:
        """Fit the window's height to its contents, unless the user has made it larger to read the log."""
        layout = self.layout()
        if layout is None or self.isMaximized():
            return
        layout.activate()
        height_px = layout.totalHeightForWidth(self.width())
        if not self.log_panel.isVisibleTo(self) or self.height() < height_px:
            self.resize(self.width(), height_px)

    def _show_mood(self, view: View) -> None:
        if view.mood is not self._mood:
            self._mood = view.mood
            icon = self._icons[view.mood]
            self.setWindowIcon(icon)
            self.icon_label.setPixmap(icon.pixmap(QSize(ICON_PX, ICON_PX), self.devicePixelRatio()))
        self.icon_label.setAccessibleName(f"State: {view.headline}")

    def _show_row(self, row: Row) -> None:
        if row.label not in self._values:
            value = _plain_label()
            value.setAccessibleName(row.label)
            self._values[row.label] = value
            self._form.addRow(f"{row.label}:", value)
        shown = shorten(row.value, VALUE_LENGTH_MAX)
        label = self._values[row.label]
        label.setText(shown)
        label.setAccessibleDescription(row.value)
        # Qt reads tool tips as markup, and the text may come from other programs.
        label.setToolTip(f"<span>{escape(row.value)}</span>" if shown != row.value else "")

    def _make_start_help(self) -> QFrame:
        frame = QFrame(frameShape=QFrame.Shape.StyledPanel)
        layout = QHBoxLayout(frame)
        self.command.setFont(self.log_panel.font())
        self.command.setAccessibleName("Command that starts a node")
        layout.addWidget(self.command, stretch=1)
        layout.addWidget(self.copy_button, alignment=Qt.AlignmentFlag.AlignTop)
        return frame

    def _lay_out(self) -> None:
        font = QFont(self.headline.font())
        font.setPointSizeF(font.pointSizeF() * HEADLINE_SCALE)
        font.setBold(True)
        self.headline.setFont(font)
        self.icon_label.setFixedSize(ICON_PX, ICON_PX)
        self._form.setContentsMargins(0, 0, 0, 0)
        self._form.setHorizontalSpacing(SPACING_PX)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self.headline)
        texts.addWidget(self.detail)
        header = QHBoxLayout()
        header.setSpacing(SPACING_PX)
        header.addWidget(self.icon_label, alignment=Qt.AlignmentFlag.AlignTop)
        header.addLayout(texts, stretch=1)
        buttons = QHBoxLayout()
        for button in (self.pause_button, self.resume_button, self.log_button):
            buttons.addWidget(button)
        buttons.addStretch(1)
        buttons.addWidget(self.quit_button)
        layout = QVBoxLayout(self)
        layout.setSpacing(SPACING_PX)
        layout.setContentsMargins(MARGIN_PX, MARGIN_PX, MARGIN_PX, MARGIN_PX)
        layout.addLayout(header)
        layout.addWidget(self._start_help)
        layout.addWidget(self._figures)
        layout.addWidget(self.problem)
        layout.addLayout(buttons)
        layout.addWidget(self.log_panel, stretch=1)
        layout.addStretch(0)
        self.resume_button.hide()
        self.log_panel.hide()
        self.log_panel.setMinimumHeight(LOG_HEIGHT_PX)
        self.setMinimumWidth(WIDTH_PX)
        self.resize(WIDTH_PX, 0)

    def _connect(self) -> None:
        self.pause_button.clicked.connect(self.pause_clicked)
        self.resume_button.clicked.connect(self.resume_clicked)
        self.quit_button.clicked.connect(self.quit_clicked)
        self.copy_button.clicked.connect(self._copy_command)
        self.log_button.setCheckable(True)
        self.log_button.toggled.connect(self._toggle_log)
        QShortcut(QKeySequence(QKeySequence.StandardKey.Close), self).activated.connect(self.close)
        QShortcut(QKeySequence(QKeySequence.StandardKey.Quit), self).activated.connect(self.quit_clicked)

    def _copy_command(self) -> None:
        QGuiApplication.clipboard().setText(self.command.text())

    def _toggle_log(self, is_shown: bool) -> None:
        self.log_panel.setVisible(is_shown)
        self.resize(max(self.width(), LOG_WIDTH_PX) if is_shown else WIDTH_PX, self.height())
        self.log_button.setText("Hide &log" if is_shown else "Show &log")
        self.log_toggled.emit(is_shown)
        self._fit()


def _plain_label(text: str = "") -> QLabel:
    """Return a label for text from other programs: plain text, selectable, wrapped if it is long."""
    label = QLabel(text, textFormat=Qt.TextFormat.PlainText, wordWrap=True)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    return label


def _button(text: str, description: str) -> QPushButton:
    button = QPushButton(text)
    button.setAccessibleDescription(description)
    button.setToolTip(description)
    button.setAutoDefault(False)
    return button

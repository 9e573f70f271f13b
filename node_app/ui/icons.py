"""Draws the node's icon at every size that panels ask for.

Invariants: each mood has its own shape, so nobody needs to tell colours apart. A coloured tile with a white shape is
readable on light and on dark panels. GUI thread, after the QApplication was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap

from node_app.ui.view import Mood

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES_PX: Final = (16, 20, 22, 24, 32, 40, 48, 64, 96, 128, 256)

_COLOURS: Final = {
    Mood.SERVING: "#1a7f4b",
    Mood.WAITING: "#2563b8",
    Mood.PAUSED: "#9a6200",
    Mood.FAILURE: "#c02626",
    Mood.ABSENT: "#6b7280",
}
_WHITE: Final = QColor("white")

# Positions of the mesh's three nodes on a tile of size 1.
_NODES: Final = (QPointF(0.28, 0.66), QPointF(0.5, 0.28), QPointF(0.72, 0.66))


def make_icon(mood: Mood) -> QIcon:
    """Return the icon of a mood in all sizes."""
    icon = QIcon()
    for size_px in SIZES_PX:
        icon.addPixmap(_draw(mood, size_px))
    return icon


def _draw(mood: Mood, size_px: int) -> QPixmap:
    pixmap = QPixmap(size_px, size_px)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(size_px, size_px)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(_COLOURS[mood]))
    painter.drawRoundedRect(QRectF(0.02, 0.02, 0.96, 0.96), 0.22, 0.22)
    painter.setBrush(_WHITE)
    _SHAPES[mood](painter)
    painter.end()
    return pixmap


def _draw_mesh(painter: QPainter) -> None:
    painter.setPen(QPen(_WHITE, 0.075))
    painter.drawPolyline([*_NODES, _NODES[0]])
    painter.setPen(Qt.PenStyle.NoPen)
    for node in _NODES:
        painter.drawEllipse(node, 0.14, 0.14)


def _draw_open_mesh(painter: QPainter) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(_WHITE, 0.075))
    for node in _NODES:
        painter.drawEllipse(node, 0.12, 0.12)


def _draw_dots(painter: QPainter) -> None:
    for x in (0.24, 0.5, 0.76):
        painter.drawEllipse(QPointF(x, 0.5), 0.1, 0.1)


def _draw_bars(painter: QPainter) -> None:
    for x in (0.28, 0.56):
        painter.drawRoundedRect(QRectF(x, 0.24, 0.16, 0.52), 0.04, 0.04)


def _draw_exclamation(painter: QPainter) -> None:
    painter.drawRoundedRect(QRectF(0.42, 0.18, 0.16, 0.4), 0.06, 0.06)
    painter.drawEllipse(QPointF(0.5, 0.75), 0.1, 0.1)


_SHAPES: Final[dict[Mood, Callable[[QPainter], None]]] = {
    Mood.SERVING: _draw_mesh,
    Mood.WAITING: _draw_dots,
    Mood.PAUSED: _draw_bars,
    Mood.FAILURE: _draw_exclamation,
    Mood.ABSENT: _draw_open_mesh,
}

"""The figures Python itself knows, on any system."""

from __future__ import annotations

import os

from node_app.hardware.base import Hardware, MachineFigures


class NullHardware(Hardware):
    """Cores only; memory unknown."""

    def figures(self) -> MachineFigures:
        """Return the figures of this moment."""
        return MachineFigures(cores=os.cpu_count() or 1, memory_total_bytes=None, memory_available_bytes=None)

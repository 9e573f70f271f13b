"""The figures on systems that have no backend of their own."""

from __future__ import annotations

import os

from node_app.hardware.base import Hardware, MachineFigures


class NullHardware(Hardware):
    """Counts the cores by Python's own means; the memory is unknown."""

    def figures(self) -> MachineFigures:
        """Return the present figures."""
        return MachineFigures(cores=os.cpu_count() or 1, memory_total_bytes=None, memory_available_bytes=None)

"""Counts the cores on operating systems on which the memory cannot be read."""

from __future__ import annotations

import os

from node_app.hardware.base import Hardware, MachineFigures


class NullHardware(Hardware):
    """Counts all cores of the machine with `os.cpu_count`; the memory is unknown."""

    def figures(self) -> MachineFigures:
        """Return the number of cores; the memory figures are None."""
        return MachineFigures(cores=os.cpu_count() or 1, memory_total_bytes=None, memory_available_bytes=None)

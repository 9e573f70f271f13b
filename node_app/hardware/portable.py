"""The figures psutil reads the same way on Windows and macOS, which have no cgroups."""

from __future__ import annotations

import os

import psutil

from node_app.hardware.base import Hardware, MachineFigures


class PortableHardware(Hardware):
    """psutil's view of cores and memory."""

    def figures(self) -> MachineFigures:
        """Return the figures of this moment."""
        memory = psutil.virtual_memory()
        return MachineFigures(
            cores=psutil.cpu_count(logical=False) or os.cpu_count() or 1,
            memory_total_bytes=memory.total,
            memory_available_bytes=memory.available,
        )

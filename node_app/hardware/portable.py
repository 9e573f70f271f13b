"""Reads cores and memory with psutil on Windows and macOS, which have no cgroups."""

from __future__ import annotations

import os

import psutil

from node_app.hardware.base import Hardware, MachineFigures


class PortableHardware(Hardware):
    """Reads cores and memory with psutil; counts physical cores if psutil knows them, else logical ones."""

    def figures(self) -> MachineFigures:
        """Return the machine's cores and its present memory."""
        memory = psutil.virtual_memory()
        return MachineFigures(
            cores=psutil.cpu_count(logical=False) or os.cpu_count() or 1,
            memory_total_bytes=memory.total,
            memory_available_bytes=memory.available,
        )

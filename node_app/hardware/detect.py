"""Chooses the class that reads cores and memory on this machine's operating system."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from node_app.hardware.null import NullHardware

if TYPE_CHECKING:
    from node_app.hardware.base import Hardware


def detect_hardware(platform: str = sys.platform) -> Hardware:
    """Return an object that reads cores and memory on `platform`, which is named as in `sys.platform`."""
    if platform == "linux":
        from node_app.hardware.linux import LinuxHardware  # noqa: PLC0415 - other systems lack its calls

        return LinuxHardware()
    if platform in {"win32", "darwin"}:
        from node_app.hardware.portable import PortableHardware  # noqa: PLC0415 - kept off headless Linux

        return PortableHardware()
    return NullHardware()

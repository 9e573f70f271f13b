"""What the agent may ask about the machine.

Invariant: figures are what this process may use (affinity, cgroup limits), not what the machine is sold with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """What this process may use.

    Attributes:
        cores: running threads that make sense; at least 1.
        memory_total_bytes: physical memory or the tightest cgroup limit; None where unknown.
        memory_available_bytes: what could be allocated now without swapping; None where unknown.
    """

    cores: int
    memory_total_bytes: int | None
    memory_available_bytes: int | None


class Hardware(ABC):
    """One operating system's way to read the figures."""

    @abstractmethod
    def figures(self) -> MachineFigures:
        """Return the figures of this moment; never raises for what the system does not tell."""

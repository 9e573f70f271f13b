"""A machine's figures (cores and memory), and the interface of the classes that read them.

Invariant: on Linux the figures count only the cores and the memory that this process may use (affinity, cgroups).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """The cores and the memory that this process may use.

    Attributes:
        cores: the number of threads that can run at once; at least 1.
        memory_total_bytes: physical memory, or the smallest cgroup limit if that is less; None if unknown.
        memory_available_bytes: memory that could be allocated now without swapping; None if unknown.
    """

    cores: int
    memory_total_bytes: int | None
    memory_available_bytes: int | None


class Hardware(ABC):
    """Reads this machine's cores and memory. Each operating system has its own subclass."""

    @abstractmethod
    def figures(self) -> MachineFigures:
        """Return the present figures; a figure that the system does not give is None, and no error is raised."""

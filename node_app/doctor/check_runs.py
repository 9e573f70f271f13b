"""Runs the checks side by side.

Invariants: each has its own deadline, counted from the start of all; one that does not end, or fails in a way that
nobody foresaw, is a finding and stops no other; findings come in the order of the checks. Threads that hang are daemons
and are left behind when the process ends.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from node_app.doctor.findings import Finding, failed
from node_app.system.installing import installing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Check:
    """Something to look at.

    Attributes:
        deadline_s: seconds after which it counts as failed.
        run: returns what was found; blocking, in a thread of its own.
    """

    name: str
    deadline_s: float
    run: Callable[[], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class _Running:
    check: Check
    results: queue.SimpleQueue[list[Finding]]


def run_checks(checks: Sequence[Check]) -> Iterator[Finding]:
    """Start all checks and yield their findings, check by check, each as soon as those before it are known."""
    started_s = time.monotonic()
    for running in [_start(check) for check in checks]:
        left_s = max(0.0, started_s + running.check.deadline_s - time.monotonic())
        try:
            yield from running.results.get(timeout=left_s)
        except queue.Empty:
            yield _overdue(running.check)


def _start(check: Check) -> _Running:
    results: queue.SimpleQueue[list[Finding]] = queue.SimpleQueue()
    threading.Thread(target=lambda: results.put(_run(check)), name=f"check {check.name}", daemon=True).start()
    return _Running(check, results)


def _run(check: Check) -> list[Finding]:
    try:
        return list(check.run())
    except ModuleNotFoundError as error:
        return [failed(check.name, f"needs the Python module {error.name}", installing("node"))]
    except Exception as error:  # noqa: BLE001 - the root of the check: told, and the others go on
        # Only the type: a message may hold what nobody vetted.
        return [failed(check.name, f"could not be checked: {type(error).__name__}", "report this as a fault")]


def _overdue(check: Check) -> Finding:
    return failed(check.name, f"no answer within {check.deadline_s:g} s", "try again on a quieter machine or network")

"""Runs the doctor's checks at the same time, each in a thread of its own.

Invariants: each check has its own deadline, counted from the common start. If a check does not end in time or raises
any error, that becomes a finding and the other checks go on. Findings come in the order of the checks. A thread that
hangs does not keep the process alive.
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
    """One check of the machine or the site.

    Attributes:
        deadline_s: if `run` takes longer, the check counts as failed.
        run: returns the findings; it may block, since it runs in a thread of its own.
    """

    name: str
    deadline_s: float
    run: Callable[[], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class _Running:
    check: Check
    results: queue.SimpleQueue[list[Finding]]


def run_checks(checks: Sequence[Check]) -> Iterator[Finding]:
    """Start all checks and yield their findings in the order of `checks`, each as soon as the order allows."""
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
    except Exception as error:  # noqa: BLE001 - the root of the check: reported, and the others go on
        # Only the type is shown: the message of an unforeseen error may hold a secret.
        return [failed(check.name, f"could not be checked: {type(error).__name__}", "report this as a bug")]


def _overdue(check: Check) -> Finding:
    return failed(check.name, f"no answer within {check.deadline_s:g} s", "try again on a quieter machine or network")

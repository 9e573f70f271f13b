"""What was counted for each architecture, and what of it counts as success. No process: tested alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

EXACT_CHECKS: Final = ("alone", "together", "rewind", "recompute", "snapshot", "processes")
CONTROLS: Final = ("control", "state_control")
_NUMBERS: Final = ("cuts", "rows", "mismatched_rows", "mismatched_bits", "other_tokens", "exact", "refused", "bytes")


@dataclass(slots=True)
class ArchitectureRecord:
    """What was counted for one architecture, check by check."""

    checks: dict[str, dict[str, int]] = field(default_factory=dict)

    def is_good(self) -> bool:
        """Whether every check compared rows and found none other, and the controls found some."""
        for check in EXACT_CHECKS:
            found = self.checks.get(check, {})
            if not found.get("rows") or not found.get("cuts") or found.get("mismatched_rows"):
                return False
        # To refuse every rewind is no proof.
        has_gone_back = self.checks["rewind"].get("exact", 0) > 0
        return has_gone_back and all(self.checks.get(control, {}).get("mismatched_rows") for control in CONTROLS)


Records = dict[str, ArchitectureRecord]


@dataclass(frozen=True, slots=True)
class NativeRun:
    """What one run of the native comparison left.

    Attributes:
        status: the program's exit status; below 0, the signal that ended it.
        failures: tests that failed, those that count nothing included.
    """

    records: Records
    status: int
    failures: int

    def is_good(self) -> bool:
        """Whether the program itself says that all went well; what it compared is judged by its records."""
        return self.status == 0 and self.failures == 0


def count_failures(report: dict[str, Any]) -> int:
    """Tests that failed in a report in googletest's JSON."""
    return sum("failures" in case for suite in report["testsuites"] for case in suite["testsuite"])


def read_report(report: dict[str, Any]) -> Records:
    """The counts of a report in googletest's JSON. A test that failed counts as a row that mismatched."""
    records: Records = {}
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            if "check" not in case:
                continue
            counts = {name: int(case[name]) for name in _NUMBERS if name in case}
            if "failures" in case and case["check"] not in CONTROLS:
                counts["mismatched_rows"] = max(1, counts["mismatched_rows"])
            records.setdefault(case["architecture"], ArchitectureRecord()).checks[case["check"]] = counts
    return records


def table(records: Records) -> list[str]:
    """Lines for a person: rows compared and, where any, rows that differ, as they do in the controls."""
    checks = (*EXACT_CHECKS, *CONTROLS)
    lines = ["architecture  " + "".join(f"{check:>18}" for check in checks)]
    for name, record in records.items():
        cells = []
        for check in checks:
            counts = record.checks.get(check, {})
            differing = counts.get("mismatched_rows", 0)
            cells.append(f"{counts.get('rows', 0)}" + (f" ({differing} differ)" if differing else ""))
        lines.append(f"{name:<14}" + "".join(f"{cell:>18}" for cell in cells))
    return lines

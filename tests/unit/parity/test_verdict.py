"""The verdict of `make parity`: every way in which a run proves nothing is a failure."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tests.parity.architecture_counts import (
    CONTROLS,
    EXACT_CHECKS,
    ArchitectureRecord,
    NativeRun,
    count_failures,
    read_report,
    table,
)
from tests.parity.comparison import Comparison, TokenComparison
from tests.parity.native_comparison import compare_natively
from tests.parity.noise_control import Control
from tests.parity.record import ARCHITECTURES, EVERYTHING, SHORT, Record

ROW = struct.pack("<3f", 1.0, -2.0, 0.5)


def good_record() -> Record:
    answers = 2 * len(EVERYTHING.prompts) * len(EVERYTHING.carriers)
    control = Control(clean=Comparison(rows=8), noisy=Comparison(rows=8, mismatched=8))
    architectures = {name: good_architecture() for name in EVERYTHING.architectures}
    return Record(
        rows=Comparison(rows=1536),
        shipped=TokenComparison(tokens=512),
        control=control,
        stack_prompts=answers,
        native=NativeRun(architectures, status=0, failures=0),
        architectures=architectures,
    )


def good_architecture() -> ArchitectureRecord:
    checks = {check: {"cuts": 7, "rows": 100, "mismatched_rows": 0} for check in EXACT_CHECKS}
    checks["rewind"] |= {"exact": 2, "refused": 3}
    return ArchitectureRecord(
        checks | {control: {"cuts": 1, "rows": 50, "mismatched_rows": 50} for control in CONTROLS}
    )


def test_a_good_run_passes() -> None:
    assert good_record().is_good(EVERYTHING)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": Comparison()},
        {"rows": Comparison(rows=999)},
        {"rows": Comparison(rows=1536, mismatched=1)},
        {"shipped": TokenComparison()},
        {"shipped": TokenComparison(tokens=511)},
        {"shipped": TokenComparison(tokens=512, mismatched=1)},
        {"stack_prompts": 0},
        {"stack_mismatched": 1},
        {"survivors": 1},
        {"native": None},
        {"native": NativeRun({}, status=1, failures=0)},
        {"native": NativeRun({}, status=-11, failures=0)},
        {"native": NativeRun({}, status=0, failures=1)},
        {"control": Control(clean=Comparison(), noisy=Comparison(rows=8, mismatched=8))},
        {"control": Control(clean=Comparison(rows=8, mismatched=1), noisy=Comparison(rows=8, mismatched=8))},
        {"control": Control(clean=Comparison(rows=8), noisy=Comparison(rows=8))},
    ],
)
def test_a_run_that_proves_nothing_or_finds_something_fails(change: dict[str, object]) -> None:
    assert not replace(good_record(), **change).is_good(EVERYTHING)


def test_the_plans_cover_what_they_promise() -> None:
    for plan in (EVERYTHING, SHORT):
        routes = len(plan.cuts) + len(plan.split_file_cuts)
        assert routes * len(plan.prompts) * plan.rows >= plan.rows_min
        assert all(
            bounds[0] == 0 and bounds[-1] == 30 for bounds in (*plan.cuts, *plan.split_file_cuts, *plan.shipped_cuts)
        )
        assert plan.shipped_cuts
    assert {len(bounds) - 1 for bounds in EVERYTHING.cuts} == {2, 3}
    assert EVERYTHING.rows_min >= 1000
    assert len(EVERYTHING.prompts) == 8


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        (ROW, (0, 0, 0)),
        (struct.pack("<3f", 1.0, -2.0, 0.50000006), (1, 0, 0)),
        (struct.pack("<3f", 1.0, 2.0, 0.5), (1, 1, 0)),
        (struct.pack("<3f", 1.0, float("nan"), 0.5), (1, 0, 1)),
        (ROW[:-4], (1, 0, 0)),
        (b"", (1, 0, 0)),
    ],
    ids=["equal", "one_bit", "another_token", "nan", "short", "empty"],
)
def test_rows_are_compared_bit_for_bit(found: bytes, counts: tuple[int, int, int]) -> None:
    comparison = Comparison()
    comparison.add(found, ROW)
    assert comparison.rows == 1
    assert (comparison.mismatched, comparison.tokens_differ, comparison.not_finite) == counts


@pytest.mark.parametrize(
    ("found", "mismatched"), [((5, 6, 7), 0), ((5, 6), 1), ((), 3), ((5, 0, 7), 1), ((5, 6, 7, 8), 1)]
)
def test_tokens_are_compared_one_by_one(found: tuple[int, ...], mismatched: int) -> None:
    comparison = TokenComparison()
    comparison.add_all(found, (5, 6, 7))
    assert (comparison.tokens, comparison.mismatched) == (3, mismatched)


def test_a_missing_row_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"zip\(\)"):
        Comparison().add_all([ROW], [ROW, ROW])


@pytest.mark.parametrize("check", [*EXACT_CHECKS, *CONTROLS])
@pytest.mark.parametrize(
    "counts", [None, {}, {"cuts": 7, "rows": 0}, {"cuts": 0, "rows": 9}, {"cuts": 7, "rows": 9, "mismatched_rows": 1}]
)
def test_an_architecture_of_which_a_check_is_missing_or_differs_fails(
    check: str, counts: dict[str, int] | None
) -> None:
    record = good_architecture()
    assert record.is_good()
    del record.checks[check]
    if counts is not None:
        record.checks[check] = counts
    # A control is to differ, and to have counted is not enough for it.
    assert record.is_good() is (check in CONTROLS and bool(counts) and "mismatched_rows" in counts)


def test_an_architecture_that_never_went_back_fails_and_so_does_one_that_is_missing() -> None:
    record = good_record()
    del record.architectures[EVERYTHING.architectures[-1]].checks["rewind"]["exact"]
    assert not record.is_good(EVERYTHING)
    record = good_record()
    del record.architectures[EVERYTHING.architectures[0]]
    assert not record.is_good(EVERYTHING)


def test_the_native_report_is_read_and_a_failed_test_is_a_mismatch() -> None:
    case = {"architecture": "gpt-oss", "check": "alone", "cuts": "7", "rows": "90", "mismatched_rows": "0"}
    control = {"architecture": "gpt-oss", "check": "control", "cuts": "1", "rows": "9", "mismatched_rows": "9"}
    cases = [case, control, {"name": "NeighboursAgreeOnTheirSeam"}]
    records = read_report({"testsuites": [{"testsuite": cases}]})
    assert records["gpt-oss"].checks["alone"] == {"cuts": 7, "rows": 90, "mismatched_rows": 0}
    failed = read_report({"testsuites": [{"testsuite": [case | {"failures": [{}]}]}]})
    assert failed["gpt-oss"].checks["alone"]["mismatched_rows"] == 1
    heading, line = table(records)
    assert heading.split()[0] == "architecture"
    assert "90" in line
    assert "(9 differ)" in line


def test_the_architectures_alone_are_judged_by_themselves() -> None:
    architectures = {name: good_architecture() for name in ARCHITECTURES.architectures}
    record = Record(architectures=architectures, native=NativeRun(architectures, status=0, failures=0))
    assert record.is_good(ARCHITECTURES)
    assert not replace(record, native=None).is_good(ARCHITECTURES)
    assert not Record().is_good(ARCHITECTURES)
    assert not record.is_good(EVERYTHING)


def native_program(folder: Path, report: str | None, status: int) -> Path:
    """A program that writes this report where the last argument says, and ends so."""
    path = folder / "tests.sh"
    write = "" if report is None else f"printf %s '{report}' > \"${{3#--gtest_output=json:}}\"\n"
    path.write_text(f"#!/bin/sh\n{write}exit {status}\n")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize(("failed", "status", "is_good"), [(0, 0, True), (1, 1, False), (0, 1, False), (1, 0, False)])
def test_the_native_programs_status_and_failures_are_kept(
    tmp_path: Path, failed: int, status: int, is_good: bool
) -> None:
    seams = {"name": "NeighboursAgreeOnTheirSeam"} | ({"failures": [{"failure": "no"}]} if failed else {})
    counted = {"architecture": "llama", "check": "alone", "cuts": "3", "rows": "9", "mismatched_rows": "0"}
    report = json.dumps({"testsuites": [{"testsuite": [seams, counted]}]})
    found = compare_natively(native_program(tmp_path, report, status), tmp_path, tmp_path)
    assert (found.status, found.failures, found.is_good()) == (status, failed, is_good)
    assert found.records["llama"].checks["alone"]["rows"] == 9
    assert count_failures(json.loads(report)) == failed


def test_a_native_program_without_a_report_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="status 3"):
        compare_natively(native_program(tmp_path, None, 3), tmp_path, tmp_path)

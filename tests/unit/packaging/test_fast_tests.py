import itertools
import json
import tomllib
from pathlib import Path

import pytest

import fast_tests
from fast_tests import LEFT_OUT, PARTS, ROOT, SKIPPING_FOLDERS, SLOW_FOLDERS

REPORT = '<testsuite><testcase classname="c" name="t" time="1.5"/></testsuite>'


def test_every_marker_of_ours_is_left_out_and_said_so():
    """Each means that something is needed beyond `make bootstrap`."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert {line.partition(":")[0] for line in options["markers"]} == set(LEFT_OUT)
    assert f"not ({' or '.join(LEFT_OUT)})" in fast_tests.command("unit")


@pytest.mark.parametrize("folder", [*SLOW_FOLDERS, *SKIPPING_FOLDERS, *itertools.chain(*PARTS.values())])
def test_every_folder_that_is_named_exists(folder):
    assert list((ROOT / folder).rglob("test_*.py"))


def run_main(monkeypatch, tmp_path, capsys, report, status):
    def run_parts():
        for part in PARTS:
            if report:
                Path(fast_tests._report(part)).write_text(report)
        return dict.fromkeys(PARTS, status)

    monkeypatch.setattr(fast_tests, "REPORTS", tmp_path)
    monkeypatch.setattr(fast_tests, "run_parts", run_parts)
    returned = fast_tests.main()
    return returned, capsys.readouterr().out


def test_it_ends_with_the_counts_of_all_parts(monkeypatch, tmp_path, capsys):
    status, said = run_main(monkeypatch, tmp_path, capsys, REPORT, 0)
    assert status == 0
    assert json.loads(said.splitlines()[-1]) == {"python": 2, "native": 0, "e2e": 0, "skipped": 0, "failed": 0}
    assert all(f"marked {marker}:" in said for marker in LEFT_OUT)
    assert "1.50 s  c.t" in said


@pytest.mark.parametrize(("report", "status"), [(REPORT, 1), ("", 2), ("<testsuite/>", 5)])
def test_a_part_that_fails_or_dies_or_runs_nothing_is_no_success(monkeypatch, tmp_path, capsys, report, status):
    returned, said = run_main(monkeypatch, tmp_path, capsys, report, status)
    assert returned == 1
    assert json.loads(said.splitlines()[-1])["failed"] == len(PARTS)

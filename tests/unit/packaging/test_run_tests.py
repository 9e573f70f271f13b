import pytest

import run_tests
from run_tests import Counts, PartResult, exit_status, read_junit, slowest_tests

REPORT = """\
<testsuites><testsuite>
  <testcase name="a"/><testcase name="b"><failure/></testcase>
  <testcase name="c"><skipped/></testcase><testcase name="d"><error/></testcase>
</testsuite></testsuites>
"""


def test_counts_a_junit_file(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert read_junit(tmp_path / "report.xml") == PartResult(ran=3, skipped=1, failed=2)


def test_the_slowest_of_all_reports_come_first(tmp_path):
    for name, times in (("a.xml", (0.5, 3)), ("b.xml", (2, 0.1))):
        cases = [f'<testcase classname="{name}" name="t{number}" time="{time}"/>' for number, time in enumerate(times)]
        (tmp_path / name).write_text(f"<testsuite>{''.join(cases)}</testsuite>")
    paths = [tmp_path / name for name in ("a.xml", "died before it wrote.xml", "b.xml")]
    assert slowest_tests(paths, 3) == [(3.0, "a.xml.t1"), (2.0, "b.xml.t0"), (0.5, "a.xml.t0")]


def test_a_report_that_was_never_written_is_a_failure(tmp_path):
    assert read_junit(tmp_path / "none.xml") == PartResult(ran=0, skipped=0, failed=1)


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        (Counts(python=1, native=1), 0),
        (Counts(python=0, native=1), 1),
        (Counts(python=1, native=0), 1),
        (Counts(python=1, native=1, failed=1), 1),
        (Counts(python=1, native=1, skipped=1), 1),
    ],
)
def test_testing_nothing_or_skipping_is_no_success(counts, status):
    assert exit_status(counts) == status


def test_everything_that_tests_need_is_provided_and_a_failure_of_it_is_counted(monkeypatch, tmp_path):
    commands = []

    def run(command):
        commands.append(command[1:])
        return 1

    monkeypatch.setattr(run_tests, "_run", run)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path)
    assert run_tests.run_everything().failed >= len(run_tests.PREPARATIONS)
    brought = [["packaging/qt_libraries.py"], ["packaging/chromium.py"], ["packaging/torch_extra.py"]]
    assert commands[:4] == [*brought, ["native/tools/build.py", "cpu"]]
    assert all((run_tests.ROOT / script).is_file() for script, *_ in commands[:3])

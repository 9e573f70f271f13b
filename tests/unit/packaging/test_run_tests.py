import pytest

from run_tests import Counts, PartResult, exit_status, read_junit

REPORT = """\
<testsuites><testsuite>
  <testcase name="a"/><testcase name="b"><failure/></testcase>
  <testcase name="c"><skipped/></testcase><testcase name="d"><error/></testcase>
</testsuite></testsuites>
"""


def test_counts_a_junit_file(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert read_junit(tmp_path / "report.xml") == PartResult(ran=3, skipped=1, failed=2)


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

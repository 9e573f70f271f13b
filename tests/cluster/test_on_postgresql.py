"""The site's own tests of what it stores, with PostgreSQL in SQLite's place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from run_tests import read_junit
from tests.cluster.servers import RunningServers

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "tests/unit/tracker_site/accounts",
    "tests/unit/tracker_site/billing",
    "tests/unit/tracker_site/catalog",
    "tests/unit/tracker_site/commands",
    "tests/unit/tracker_site/config",
    "tests/unit/tracker_site/control_plane",
    "tests/unit/tracker_site/nodes",
    "tests/unit/tracker_site/ops",
    "tests/unit/tracker_site/test_admin.py",
    "tests/unit/tracker_site/test_unforeseen_errors.py",
    "tests/unit/tracker_site/gateway/test_record_store.py",
    "tests/integration/tracker_site/control_plane/test_control_connection.py",
    "tests/integration/tracker_site/billing/test_ledger_concurrency.py",
)
DEADLINE_S = 540


def test_what_the_site_stores_is_the_same_on_postgresql(servers: RunningServers, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "--no-skips", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, *TESTS],
        cwd=ROOT,
        env={**os.environ, "TEST_DATABASE_URL": servers.database_url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    result = read_junit(report)
    print(f"on PostgreSQL: {result}")
    assert done.returncode == 0, done.stdout[-8000:]
    assert result.ran > 0

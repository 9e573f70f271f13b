"""A database that an earlier version wrote needs nothing but `migrate`, and every row of it can be read.

`tests/vectors/site_before_rooms.sql` is a site as it was before the modules of `tracker_site` moved into today's
folders; every table has a row.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DUMP = (ROOT / "tests/vectors/site_before_rooms.sql").read_text()
DEADLINE_S = 60.0
SITE = ["-c", "import sys; from tracker_site.commands import main; sys.exit(main(sys.argv[1:]))"]
ADMIN_PAGES = [str(Path(__file__).with_name("admin_pages.py"))]
# In the admin, with the rows that the dump has.
ROWS = {
    "accounts.apikey": 2,
    "accounts.nodetoken": 5,
    "accounts.user": 3,
    "auth.group": 1,
    "billing.account": 6,
    "billing.hold": 3,
    "billing.transfer": 10,
    "catalog.model": 1,
    "gateway.generationrecord": 2,
    "nodes.loadedshard": 3,
    "nodes.node": 3,
}
# Of the first shard, as the columns of the dump have them.
FACTS = {
    "artifact_digest": "e8ede47fd3f12e46fcf3b04945a1f6e960372a154c64724272c647a7540b885d", "architecture": "fake",
    "layer_begin": 0, "layer_end": 4, "n_layers": 8, "contract_digest": "63" * 32, "exact_class": "0a0131120466616b65",
    "context_length": 4096, "vocab_size": 260, "needs_token_ids": True, "seam_bytes_per_row": 64, "codecs": [],
    "recipe": "fake", "decode_ms_per_layer": 0.5, "prefill_ms_per_layer": 0.25, "tail_ms": 1.5,
    "kv_cells_total": 8192, "kv_cells_free": 8000, "max_sessions": 8, "sessions": 1,
}  # fmt: skip


class OldSite:
    """A data directory with a database of before."""

    def __init__(self, folder: Path, dump: str = DUMP) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MESHNET_", "DJANGO_"))}
        settings = {"MESHNET_SITE_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "tracker_site.config.settings"}
        self._environment = {**own, **settings}
        self._database = folder / "site.sqlite3"
        with sqlite3.connect(self._database) as connection:
            connection.executescript(dump)
        connection.close()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip

    def counts(self) -> dict[str, int]:
        """Rows of each table."""
        connection = sqlite3.connect(self._database)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
        connection.close()
        return counts

    def shard_facts(self) -> dict[str, object]:
        """The JSON column of the first shard."""
        connection = sqlite3.connect(self._database)
        (facts,) = connection.execute("SELECT facts FROM nodes_loadedshard WHERE id = 1").fetchone()
        connection.close()
        return json.loads(facts)


def test_it_is_migrated_and_every_row_is_read(tmp_path: Path) -> None:
    site = OldSite(tmp_path)
    before = site.counts()
    assert min(before.values()) > 0
    migrated = site.run(*SITE, "migrate", "--json")
    assert migrated.returncode == 0, migrated.stderr
    before["django_migrations"] += json.loads(migrated.stdout)["applied"]
    assert site.counts() == before
    assert site.shard_facts() == FACTS
    for check in (["makemigrations", "--check", "--dry-run"], ["check"]):
        checked = site.run("-m", "django", *check)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    pages = site.run(*ADMIN_PAGES)
    assert pages.returncode == 0, pages.stderr
    assert json.loads(pages.stdout) == ROWS
    audit = site.run(*SITE, "audit", "--json")
    assert (audit.returncode, json.loads(audit.stdout)["problems"]) == (0, []), audit.stderr


@pytest.mark.parametrize("column", ["channel_name", "balance_micros", "recipe"])
def test_a_column_of_another_name_is_noticed(tmp_path: Path, column: str) -> None:
    site = OldSite(tmp_path, DUMP.replace(f'"{column}"', '"renamed"'))
    migrated = site.run(*SITE, "migrate", "--json")
    failed = migrated if migrated.returncode else site.run(*ADMIN_PAGES)
    assert failed.returncode != 0
    assert f".{column}" in failed.stderr
    assert "no such column" in failed.stderr

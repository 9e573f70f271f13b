"""One live site for all tests of the API."""

from __future__ import annotations

import json
import selectors
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import psutil
import pytest
import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).with_name("site_program.py")
START_TIMEOUT_S = 60.0
TIMEOUT_S = 30.0


@dataclass
class LiveSite:
    """A running site; `keys` are the secrets by user."""

    url: str
    keys: dict[str, str]
    data: Path
    pid: int
    log: Path

    def client(self, user: str = "alice") -> openai.OpenAI:
        """The official client, without retries, so that every answer is seen."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.keys[user], max_retries=0, timeout=TIMEOUT_S)

    def post(self, path: str, body: Any = None, *, key: str | None = "alice", **options: Any) -> requests.Response:
        """A raw request."""
        headers = {"Authorization": f"Bearer {self.keys.get(key, key)}"} if key else {}
        headers |= options.pop("headers", {})
        sent = {"data": body} if isinstance(body, bytes) else {"json": body}
        return requests.post(f"{self.url}{path}", headers=headers, timeout=TIMEOUT_S, **sent, **options)

    def get(self, path: str, key: str | None = "alice") -> requests.Response:
        headers = {"Authorization": f"Bearer {self.keys.get(key, key)}"} if key else {}
        return requests.get(f"{self.url}{path}", headers=headers, timeout=TIMEOUT_S)

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Look into the database."""
        with closing(sqlite3.connect(f"file:{self.data / 'site.sqlite3'}?mode=ro", uri=True)) as connection:
            return connection.execute(statement, parameters).fetchall()

    def record(self, generation_id: str) -> dict[str, Any]:
        """The stored record of a generation, once it is settled."""
        return self.record_within(generation_id, 5.0)

    def record_within(self, generation_id: str, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = self.get(f"/v1/generations/{generation_id}")
            if found.status_code == 200 and found.json()["status"] != "running":
                answer: dict[str, Any] = found.json()
                return answer
        raise AssertionError(f"{generation_id} was not settled in time")

    def open_holds(self) -> int:
        return int(self.query("select count(*) from billing_hold where state = 'open'")[0][0])

    def ledger_sum(self) -> int:
        return int(self.query("select sum(balance_micros) from billing_account")[0][0])

    @property
    def resident_bytes(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)


def _ready_line(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(START_TIMEOUT_S) else ""
    assert line, log.read_text()
    answer: dict[str, Any] = json.loads(line)
    return answer


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    data = tmp_path_factory.mktemp("site")
    log = data / "log.txt"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(data)], stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        try:
            ready = _ready_line(process, log)
            yield LiveSite(ready["url"], ready["keys"], data, process.pid, log)
        finally:
            process.terminate()
            process.wait(timeout=20)

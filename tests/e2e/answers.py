"""A client of the site over plain sockets' HTTP, that notes when what came.

Invariants: times are monotonic seconds; every read has a deadline; a stream that is not read to its end is closed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.simulators.fake_engine import END_TOKEN_ID

READ_TIMEOUT_S = 30.0
CHAT = "/v1/chat/completions"


@dataclass
class Stream:
    """One streamed answer, read event by event."""

    response: requests.Response
    sent_s: float
    text: str = ""
    deltas: int = 0
    telemetry: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    is_done: bool = False
    first_telemetry_s: float | None = None

    def __post_init__(self) -> None:
        # As it arrives: byte by byte a flood of tokens would be read more slowly than it comes.
        self._lines = self.response.iter_lines(chunk_size=None, decode_unicode=False)

    @property
    def generation_id(self) -> str:
        return self.response.headers["X-Request-Id"]

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The route, as the last telemetry tells it."""
        return self.telemetry[-1]["stages"] if self.telemetry else []

    @property
    def carriers(self) -> list[str]:
        return [stage["carrier"] for stage in self.stages]

    def events(self) -> Iterator[None]:
        """Take one event at a time until the stream ends; an error event ends it."""
        for line in self._lines:
            if line.startswith(b": meshnet "):
                self.first_telemetry_s = self.first_telemetry_s or time.monotonic() - self.sent_s
                self.telemetry.append(json.loads(line.removeprefix(b": meshnet ")))
            elif line == b"data: [DONE]":
                self.is_done = True
            elif line.startswith(b"data: "):
                self._take(json.loads(line.removeprefix(b"data: ")))
            else:
                continue
            yield

    def _take(self, chunk: dict[str, Any]) -> None:
        self.error = chunk.get("error")
        for choice in chunk.get("choices", []):
            if delta := choice["delta"].get("content"):
                self.text += delta
                self.deltas += 1

    def read_deltas(self, count: int) -> None:
        """Read until so many pieces of text have come."""
        wanted = self.deltas + count
        for _ in self.events():
            if self.deltas >= wanted:
                return
        raise AssertionError(f"ended after {self.deltas} pieces: {self.error}")

    def read_to_end(self) -> Stream:
        for _ in self.events():
            pass
        return self


@dataclass(frozen=True)
class Client:
    """Calls one site with one key."""

    url: str
    key: str

    def post(self, body: dict[str, Any], *, stream: bool = False) -> requests.Response:
        return requests.post(
            self.url + CHAT,
            json={**body, "stream": stream},
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=READ_TIMEOUT_S,
            stream=stream,
        )

    def post_bytes(self, body: bytes) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        return requests.post(self.url + CHAT, data=body, headers=headers, timeout=READ_TIMEOUT_S)

    @contextmanager
    def stream(self, body: dict[str, Any]) -> Iterator[Stream]:
        """An answer that is being streamed; left early, its connection is closed."""
        sent_s = time.monotonic()
        with self.post(body, stream=True) as response:
            assert response.status_code == 200, response.text
            yield Stream(response, sent_s)

    def find_record(self, generation_id: str) -> requests.Response:
        """What the site says of a generation now."""
        return requests.get(
            f"{self.url}/v1/generations/{generation_id}",
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=READ_TIMEOUT_S,
        )

    def record(self, generation_id: str) -> dict[str, Any]:
        """The stored record of a generation, once it is settled."""
        limit_s = time.monotonic() + READ_TIMEOUT_S
        while time.monotonic() < limit_s:
            answer = self.find_record(generation_id)
            if answer.status_code == 200 and answer.json()["status"] != "running":
                record: dict[str, Any] = answer.json()
                return record
        raise AssertionError(f"{generation_id} was not settled in time")


def a_chat(model: str, text: str = "hello", **fields: Any) -> dict[str, Any]:
    """A short request at temperature 0."""
    return {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}


def a_long_chat(model: str, text: str = "hello", **fields: Any) -> dict[str, Any]:
    """A request whose answer does not end by itself: the end token is biased away."""
    return a_chat(model, text, max_tokens=30_000, logit_bias={str(END_TOKEN_ID): -100}, **fields)

"""A node that serves its own machine, and the programs of that machine that use it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import openai
import psutil
import requests

from meshnet.sampling import SamplingTerms, sample
from tests.e2e.worker_status import worker_status
from tests.integration.node_app.node_process import Node, a_node
from tests.simulators.fake_engine import END_TOKEN_ID, FakeSequence, FakeShard, logits_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from meshnet.v1 import worker_pb2

TIMEOUT_S = 20.0
N_LAYERS, WIDTH = 4, 16
USER_TOKEN, ASSISTANT_TOKEN, BOS_TOKEN = 258, 259, 256


@dataclass
class LocalNode:
    """A running node and its local API."""

    node: Node
    api_url: str
    worker_pid: int

    @property
    def port(self) -> int:
        port = urlsplit(self.api_url).port
        assert port is not None
        return port

    @property
    def client(self) -> openai.AsyncOpenAI:
        """The official client, without retries, so that every answer is seen. Any key does."""
        return openai.AsyncOpenAI(base_url=self.api_url, api_key="none", max_retries=0, timeout=TIMEOUT_S)

    async def request(self, method: str, path: str, **options: Any) -> requests.Response:
        """A raw request, `path` below `/v1`."""
        return await asyncio.to_thread(requests.request, method, self.api_url + path, timeout=TIMEOUT_S, **options)

    async def chat(self, **fields: Any) -> requests.Response:
        return await self.request("POST", "/chat/completions", json=a_chat(**fields))

    async def status(self) -> dict[str, Any]:
        """What the agent's own status endpoint says."""
        address = json.loads((self.node.state_dir / "local_api.json").read_text())
        headers = {"Authorization": f"Bearer {address['token']}"}
        answer = await asyncio.to_thread(requests.get, f"{address['url']}/status", headers=headers, timeout=TIMEOUT_S)
        status: dict[str, Any] = answer.json()
        return status

    async def tell(self, lever: str) -> None:
        """Pull one of the tray's levers."""
        address = json.loads((self.node.state_dir / "local_api.json").read_text())
        headers = {"Authorization": f"Bearer {address['token']}"}
        await asyncio.to_thread(requests.post, f"{address['url']}/{lever}", headers=headers, timeout=TIMEOUT_S)

    async def worker_holds(self) -> tuple[int, int]:
        """(sessions, reserved KV cells), as the worker itself says."""
        status: worker_pb2.StatusReply = await asyncio.to_thread(worker_status, self.worker_pid)
        return len(status.sessions), status.kv_cells_reserved

    async def until_idle(self, deadline_s: float = TIMEOUT_S) -> float:
        """Wait until the worker holds nothing; returns the seconds that it took."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        async with asyncio.timeout(deadline_s):
            while await self.worker_holds() != (0, 0):  # noqa: ASYNC110 - another process gives no event
                await asyncio.sleep(0.02)
        return loop.time() - started_s

    @property
    def descriptors(self) -> int:
        return psutil.Process(self.node.process.pid).num_fds()


def a_chat(text: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"model": "fake", "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}


def a_long_chat(**fields: Any) -> dict[str, Any]:
    """Its answer does not end by itself: the end token is biased away."""
    return a_chat(**{"max_tokens": 400, "logit_bias": {str(END_TOKEN_ID): -100}, **fields})


@asynccontextmanager
async def a_local_node(tmp_path: Path, model: Path, worker: Path, *more: str) -> AsyncIterator[LocalNode]:
    """A node without a site, serving."""
    given = ["--gguf", str(model), "--worker", str(worker), "--threads", "1", *more]
    async with a_node(tmp_path / "state", *given) as node:
        yield await ready_node(node)


async def ready_node(node: Node) -> LocalNode:
    ready = await node.ready_line()
    return LocalNode(node, str(ready["api_url"]), int(str(ready["worker_pid"])))


def prompt_of(text: str) -> tuple[int, ...]:
    """The tokens of one user's turn."""
    return (BOS_TOKEN, USER_TOKEN, *text.encode(), ASSISTANT_TOKEN)


def unsplit_answer(text: str, *, max_tokens: int, temperature: float = 0.0, seed: int = 0) -> tuple[str, int]:
    """(text, tokens) that the whole FakeEngine answers, computed here without node or worker."""
    prompt = prompt_of(text)
    sequence = FakeSequence(FakeShard(N_LAYERS, WIDTH, 0, N_LAYERS))
    row = sequence.step_tokens(prompt)[-1]
    terms = SamplingTerms(
        temperature=temperature, top_p=1.0, top_k=0, min_p=0.0, seed=seed, presence_penalty=0.0,
        frequency_penalty=0.0, logit_bias={},
    )  # fmt: skip
    tokens: list[int] = []
    counts: Counter[int] = Counter()
    while len(tokens) < max_tokens and tokens[-1:] != [END_TOKEN_ID]:
        tokens.append(sample(logits_of(row), terms, counts, len(prompt) + len(tokens)))
        counts[tokens[-1]] += 1
        row = sequence.step_tokens((tokens[-1],))[-1]
    answer = bytes(token for token in tokens if token < BOS_TOKEN)
    return answer.decode("utf-8", "replace"), len(tokens)

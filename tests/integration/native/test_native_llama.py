"""The worker with the real model: what comes out of its socket is what the engine gives, alone or in company."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from meshnet.frame import TokenEvent
from meshnet.ids import SessionKey
from meshnet.v1 import worker_pb2
from tests.integration.native.native_routes import WORKER, until_free
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.fake_shards import terms
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.worker_process import running_program

pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]

MODEL = Path(__file__).resolve().parents[3] / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
# "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n" and two more, as ids of the model.
PROMPTS = [(1, 4093, 198, 31535, 33662, 30, 2, 198, 1, 520, 9531, 198), (504, 3575, 282, 4649, 314), (1, 42, 7)]
MAX_TOKENS = 24
LOAD_TIMEOUT_S = 60.0


def model_path() -> str:
    return os.environ.get("MESHNET_TEST_MODEL", str(MODEL))


async def generate(route: BridgedRoute, prompts: list[tuple[int, ...]], epoch: int) -> list[list[TokenEvent]]:
    """Generate for all prompts at once, one session each."""
    given = [
        terms(
            key=SessionKey(bytes([number]) * 16, epoch),
            prompt=prompt,
            max_tokens=MAX_TOKENS,
            step_deadline_ms=60_000,
            is_exact=True,
        )
        for number, prompt in enumerate(prompts)
    ]
    gateways: dict[SessionKey, PlainGateway] = {}
    for one in given:
        (reply,) = await route.open(one)
        assert reply.accepted, reply.message
        gateways[one.key] = PlainGateway(route, one)
    for gateway in gateways.values():
        await gateway.send_prompt()
    while not all(gateway.is_finished for gateway in gateways.values()):
        message = await route.receive(timeout_s=60)
        await gateways[message.key].take(message)
    for gateway in gateways.values():
        await gateway.close()
    return [gateways[one.key].answer.tokens for one in given]


def load_request(threads: int) -> worker_pb2.LoadRequest:
    return worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=model_path(),
        context_length=512,
        max_sessions=4,
        threads=threads,
        flash_attention=True,
        artifact_digest=b"a" * 32,
    )


async def test_threads_are_part_of_the_exact_class_and_of_nothing_else(tmp_path: Path) -> None:
    """Attention on the CPU splits cells by thread (docs/parity.md): exact routes need equal numbers, others do not."""
    contracts = []
    for threads in (1, 2):
        socket = tmp_path / f"w{threads}.sock"
        async with running_program(WORKER, socket) as program, BridgedRoute([program.socket_path]) as route:
            stub = route.workers[0].stub
            progress = [one async for one in stub.Load(load_request(threads), timeout=LOAD_TIMEOUT_S)]
            contracts.append(progress[-1].contract)
    one, two = contracts
    assert (one.exact_class.threads, two.exact_class.threads) == (1, 2)
    assert one.exact_class.SerializeToString(deterministic=True) != two.exact_class.SerializeToString(
        deterministic=True
    )
    assert one.contract_digest == two.contract_digest
    two.exact_class.threads = 1
    assert one == two


async def test_sessions_in_company_equal_each_alone(tmp_path: Path) -> None:
    async with running_program(WORKER, tmp_path / "w.sock") as program, BridgedRoute([program.socket_path]) as route:
        request = load_request(threads=1)
        progress = [one async for one in route.workers[0].stub.Load(request, timeout=LOAD_TIMEOUT_S)]
        route.contracts = [progress[-1].contract]
        alone = [(await generate(route, [prompt], number + 1))[0] for number, prompt in enumerate(PROMPTS)]
        started_s = time.monotonic()
        together = await generate(route, PROMPTS, 10)
        elapsed_s = time.monotonic() - started_s
        await until_free(route.workers[0])
        status = await route.workers[0].status()
    ids = [[event.token_id for event in tokens] for tokens in alone]
    assert [[event.token_id for event in tokens] for tokens in together] == ids
    assert [len(tokens) for tokens in ids] == [MAX_TOKENS] * 3
    assert len({tuple(tokens) for tokens in ids}) == 3  # control: prompts do make a difference
    assert progress[-1].contract.architecture == "llama"
    assert progress[-1].weights_bytes > 50_000_000
    assert (status.kv_cells_total, len(status.sessions)) == (4 * 512, 0)
    print(json.dumps({"sessions": 3, "tokens": 3 * MAX_TOKENS, "tokens_per_s": round(3 * MAX_TOKENS / elapsed_s, 1)}))

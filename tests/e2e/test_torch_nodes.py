"""Two nodes whose workers compute with PyTorch answer through the site, and share no route with llama.cpp's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.answers import a_chat
from tests.e2e.stack import ROOT, NodePlan, Stack, a_stack
from tests.integration.torch_engine.torch_routes import torch_worker

pytestmark = [pytest.mark.e2e, pytest.mark.native, pytest.mark.llama, pytest.mark.torch, pytest.mark.timeout(240)]

MODEL_PATH = ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "smollm2"
CONTEXT = ("--context", "1024")
TOKENS = 24


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("torch")
    with a_stack(folder, {MODEL: MODEL_PATH}) as stack:
        torch = ("--worker", str(torch_worker(folder)), *CONTEXT)
        stack.launch_all([NodePlan("head", MODEL, "0:15", torch), NodePlan("llama", MODEL, "15:30", CONTEXT)])
        yield stack


def test_a_torch_head_and_a_llama_tail_are_no_route_and_two_torch_nodes_are(stack: Stack) -> None:
    chat = a_chat(MODEL, "Why is the sky blue?", max_tokens=TOKENS)
    refused = stack.client.post(chat)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "contract_mismatch")
    torch = stack.nodes["head"].plan.options
    stack.launch_all([NodePlan("tail", MODEL, "15:30", torch)])
    with stack.client.stream(chat) as stream:
        stream.read_to_end()
    assert stream.is_done, stream.error
    print(f"two torch nodes: {stream.text!r}")
    assert "sky" in stream.text.lower()
    stack.until_idle()
    stack.assert_settled()

"""Nodes whose workers compute with PyTorch answer through the site; with llama.cpp's only where that is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest

from tests.e2e.administration import an_administrator, choose
from tests.e2e.answers import Stream, a_chat
from tests.e2e.golden_probes import make_probe
from tests.e2e.processes import until
from tests.e2e.stack import ROOT, NodePlan, Stack, a_stack
from tests.integration.node_app.reference_worker.torch_routes import torch_worker

pytestmark = [pytest.mark.e2e, pytest.mark.native, pytest.mark.llama, pytest.mark.torch, pytest.mark.timeout(240)]

MODEL_PATH = ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "smollm2"
CONTEXT = ("--context", "1024")
QUESTION = "Why is the sky blue?"
TOKENS = 24
# Of the unsplit model's answer, in characters: greedy answers part for good at the first token that differs.
COMMON_MIN = 24


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("torch")
    with a_stack(folder, {MODEL: MODEL_PATH}) as stack:
        assert make_probe(MODEL_PATH, folder / "golden")["backend"] == "cpu"
        stack.command("import-golden", MODEL, str(folder / "golden"))
        torch = ("--worker", str(torch_worker(folder)), *CONTEXT)
        stack.launch_all([NodePlan("head", MODEL, "0:15", torch), NodePlan("llama", MODEL, "15:30", CONTEXT)])
        yield stack


def ask(stack: Stack) -> Stream:
    with stack.client.stream(a_chat(MODEL, QUESTION, max_tokens=TOKENS)) as stream:
        stream.read_to_end()
    assert stream.is_done, stream.error
    return stream


def refusal(stack: Stack) -> dict[str, Any]:
    refused = stack.client.post(a_chat(MODEL, QUESTION, max_tokens=TOKENS))
    assert refused.status_code == 503
    error: dict[str, Any] = refused.json()["error"]
    return error


def test_both_kinds_of_worker_pass_the_self_test(stack: Stack) -> None:
    for name in ("head", "llama"):
        status = stack.agent_status(name)
        print(f"{name}: {status['self_test_words']}")
        assert status["self_test"] == "passed"


def unsplit_text() -> str:
    """What the whole model says in one process of llama.cpp."""
    # The bindings look for their library when they are imported.
    from tests.parity.reference import answer_unsplit

    (answer,) = answer_unsplit(MODEL_PATH, [QUESTION], TOKENS, threads=1)
    return answer.text


def test_a_torch_head_and_a_llama_tail_are_a_route_only_where_an_administrator_allows_it(stack: Stack) -> None:
    error = refusal(stack)
    assert error["code"] == "contract_mismatch"
    assert "different recipes (llama.cpp, torch f32)" in error["message"]
    notices = until(lambda: [told for name in stack.nodes if (told := stack.agent_status(name)["notice"])], "a notice")
    assert "does not mix on a route" in notices[0]
    admin = an_administrator(stack)
    choose(stack, admin, MODEL, prompt_micros="3", completion_micros="7", allows_mixed_recipes="on")
    mixed = ask(stack)
    assert [stage["recipe"] for stage in mixed.stages] == ["torch f32", "llama.cpp"]
    record = stack.client.record(mixed.generation_id)
    assert [stage["recipe"] for stage in record["stages"]] == ["torch f32", "llama.cpp"]
    expected = unsplit_text()
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mixed.text, expected, strict=False)))
    print(f"torch head, llama.cpp tail: {mixed.text!r}; unsplit: {expected!r}; {common} characters alike")
    assert common >= min(COMMON_MIN, len(expected))

    choose(stack, admin, MODEL)
    assert refusal(stack)["code"] == "contract_mismatch"
    stack.until_idle()
    stack.assert_settled()


def test_two_torch_nodes_answer(stack: Stack) -> None:
    stack.launch_all([NodePlan("tail", MODEL, "15:30", stack.nodes["head"].plan.options)])
    stream = ask(stack)
    print(f"two torch nodes: {stream.text!r}")
    assert [stage["recipe"] for stage in stream.stages] == ["torch f32"] * 2
    assert "sky" in stream.text.lower()
    stack.until_idle()
    stack.assert_settled()

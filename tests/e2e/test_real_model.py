"""The demo's model, cut in two: warm at once, the same text alone and in a crowd, and a killed stage is named."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.answers import a_chat
from tests.e2e.stack import ROOT, NodePlan, Stack, a_stack

pytestmark = [pytest.mark.e2e, pytest.mark.native, pytest.mark.llama, pytest.mark.timeout(240)]

MODEL_PATH = ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "smollm2"
CONTEXT = ("--context", "1024")
PROMPT = "Why is the sky blue?"
TOKENS = 24
COLD_TELEMETRY_MS = 250
LOST_DEADLINE_S = 1.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with a_stack(tmp_path_factory.mktemp("real"), {MODEL: MODEL_PATH}, is_exact=True) as stack:
        stack.launch_all([NodePlan("head", MODEL, "0:15", CONTEXT), NodePlan("tail", MODEL, "15:30", CONTEXT)])
        yield stack


def an_answer(stack: Stack) -> str:
    with stack.client.stream(a_chat(MODEL, PROMPT, max_tokens=TOKENS)) as stream:
        stream.read_to_end()
    assert stream.is_done, stream.error
    return stream.text


def test_the_very_first_request_has_telemetry_as_early_as_the_others(stack: Stack) -> None:
    """A real vocabulary takes half a second to load; the site did it before anybody asked."""
    with stack.client.stream(a_chat(MODEL, PROMPT, max_tokens=2)) as stream:
        stream.read_to_end()
    first_ms = (stream.first_telemetry_s or 0) * 1000
    print(f"first telemetry event of the first request of all: {first_ms:.0f} ms")
    assert first_ms <= COLD_TELEMETRY_MS


def test_sessions_at_once_give_the_text_of_one_alone(stack: Stack) -> None:
    alone = an_answer(stack)
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda _: an_answer(stack), range(4)))
    assert alone.strip()
    different = sum(text != alone for text in together)
    print(f"{len(together)} sessions at once on the real model: {different} differ from alone")
    assert different == 0


def test_a_killed_tail_is_named_at_once_and_comes_back(stack: Stack) -> None:
    tail = stack.nodes["tail"]
    with stack.client.stream(a_chat(MODEL, "Count to a thousand, one by one.", max_tokens=800)) as stream:
        stream.read_deltas(4)
        tail.strike_worker(signal.SIGKILL)
        struck_s = time.monotonic()
        stream.read_to_end()
        took_s = time.monotonic() - struck_s
    assert stream.error is not None
    print(f"tail killed, real model: {stream.error['code']} after {took_s * 1000:.0f} ms")
    assert stream.error["stage"] == 1
    assert took_s <= LOST_DEADLINE_S
    tail.next_ready()
    assert an_answer(stack).strip()
    stack.until_idle()
    stack.assert_settled()

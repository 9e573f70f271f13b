"""The demo's model, whole on one node: its own machine gets what the site's clients get, and what the model gives."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator

import openai
import pytest

from tests.e2e.answers import Client, a_chat
from tests.e2e.stack import ROOT, NodePlan, Stack, a_stack

pytestmark = [pytest.mark.e2e, pytest.mark.native, pytest.mark.llama, pytest.mark.timeout(240)]

MODEL_PATH = ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "smollm2"
LOCAL_MODEL = "SmolLM2-135M-Instruct.Q4_1"
CONTEXT_LENGTH = 1024
TOKENS = 24
PROMPTS = ("Why is the sky blue?", "東京はどこですか 🗾", "</s><|im_start|>system\nint main() {" + " return 0;" * 60)
SAMPLINGS = ({"temperature": 0}, {"temperature": 0.8, "seed": 11}, {"temperature": 1.3, "seed": 2**40, "top_p": 0.9})


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with a_stack(tmp_path_factory.mktemp("local"), {MODEL: MODEL_PATH}) as stack:
        stack.launch_all([NodePlan("whole", MODEL, "0:30", ("--context", str(CONTEXT_LENGTH)))])
        yield stack


@pytest.fixture(scope="module")
def api_url(stack: Stack) -> str:
    return str(stack.nodes["whole"].program.ready_lines()[-1]["api_url"])


def streamed(client: Client, model: str, prompt: str, **sampling: object) -> str:
    with client.stream(a_chat(model, prompt, **{"max_tokens": TOKENS, **sampling})) as stream:
        stream.read_to_end()
    assert stream.is_done, stream.error
    return stream.text


def test_the_site_and_the_machine_itself_get_the_same_text(stack: Stack, api_url: str) -> None:
    local = Client(api_url.removesuffix("/v1"), "none")
    compared = 0
    for prompt in PROMPTS:
        for sampling in SAMPLINGS:
            mine = streamed(local, LOCAL_MODEL, prompt, **sampling)
            assert mine == streamed(stack.client, MODEL, prompt, **sampling)
            compared += 1
    controls = [streamed(local, LOCAL_MODEL, PROMPTS[0], temperature=1.3, seed=seed) for seed in (1, 2, 3)]
    print(f"{compared} answers as the site's; {len(set(controls))} different ones of {len(controls)} other seeds")
    assert compared == 9
    assert len(set(controls)) > 1


def test_the_text_is_that_of_the_model_in_one_process(api_url: str) -> None:
    given = {"max_tokens": TOKENS, "chunk_rows": 128, "context_length": CONTEXT_LENGTH, "threads": 1}
    command = [sys.executable, str(ROOT / "packaging/demo/unsplit.py"), str(MODEL_PATH)]
    client = openai.OpenAI(base_url=api_url, api_key="none", max_retries=0)
    for prompt in PROMPTS[:2]:
        request = json.dumps({"prompt": prompt, **given})
        done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=120, check=True)
        unsplit = json.loads(done.stdout)
        answer = client.chat.completions.create(
            model=LOCAL_MODEL, messages=[{"role": "user", "content": prompt}], temperature=0, max_tokens=TOKENS
        )
        text = answer.choices[0].message.content or ""
        assert answer.usage is not None
        assert (len(unsplit["tokens"]), answer.usage.completion_tokens) == (TOKENS, TOKENS)
        assert hashlib.sha256(text.encode()).hexdigest() == unsplit["text_sha256"]


def test_a_client_that_leaves_frees_the_real_models_cells(stack: Stack, api_url: str) -> None:
    local = Client(api_url.removesuffix("/v1"), "none")
    with local.stream(a_chat(LOCAL_MODEL, "Count to a thousand, one by one.", max_tokens=800)) as stream:
        stream.read_deltas(4)
        assert stack.busy_nodes(["whole"])
    left_s = time.monotonic()
    stack.until_idle(deadline_s=1.0)
    print(f"cells free {time.monotonic() - left_s:.3f} s after the client left")

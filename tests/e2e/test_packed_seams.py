"""Packed rows as people meet them: a volunteer names a slow line, an administrator allows a codec, a route uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import requests

from tests.e2e.administration import an_administrator, choose
from tests.e2e.answers import a_long_chat
from tests.e2e.processes import DEADLINE_S
from tests.e2e.stack import NodePlan, Stack, a_stack
from tests.simulators.fake_model import write_fake_model

pytestmark = [pytest.mark.e2e, pytest.mark.native]

MODEL = "wide"
WIDTH = 64
TOKENS = 24
# 125 bytes a second: a row of any codec takes far longer than a stage.
SLOW_LINE = ("--carrier", "relay", "--upload-mbit", "0.001")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("packed")
    model = write_fake_model(folder / "wide.gguf", width=WIDTH, name=MODEL)
    with a_stack(folder, {MODEL: model}) as stack:
        stack.launch_all([NodePlan(f"node-{layers[0]}", MODEL, layers, SLOW_LINE) for layers in ("0:4", "4:8")])
        yield stack


@pytest.fixture(scope="module")
def admin(stack: Stack) -> requests.Session:
    """An administrator's browser."""
    return an_administrator(stack)


def allow(stack: Stack, admin: requests.Session, codec: str) -> None:
    """Choose the model's coarsest codec on its page."""
    choose(stack, admin, MODEL, coarsest_codec=codec)


@pytest.mark.parametrize(
    ("allowed", "codec", "row_bytes"), [("raw", "raw", 256), ("bf16", "bf16", 128), ("q8_0", "q8_0", 68)]
)
def test_a_route_over_a_slow_line_is_packed_as_far_as_the_model_allows(
    stack: Stack, admin: requests.Session, allowed: str, codec: str, row_bytes: int
) -> None:
    allow(stack, admin, allowed)
    with stack.client.stream(a_long_chat(MODEL) | {"max_tokens": TOKENS}) as stream:
        stream.read_to_end()
        record = stack.client.record(stream.generation_id)
    assert (stream.is_done, stream.deltas) == (True, TOKENS), stream.error
    shown = [(stage["seam_codec"], stage["seam_bytes_per_token"]) for stage in stream.stages]
    assert shown == [(codec, row_bytes), ("", 0)]
    assert [stage["seam_codec"] for stage in record["stages"]] == [codec, ""]
    generation = admin.get(
        f"{stack.site_url}/admin/gateway/generationrecord/{stream.generation_id}/change/", timeout=DEADLINE_S
    )
    assert f">{codec}<" in re.sub(r"\s*", "", generation.text)


def test_packing_changes_the_answer_and_only_packing_does(stack: Stack, admin: requests.Session) -> None:
    """The FakeEngine tells any difference of a row: what the telemetry says is what was sent."""
    texts = []
    for allowed in ("raw", "bf16", "q8_0", "raw"):
        allow(stack, admin, allowed)
        with stack.client.stream(a_long_chat(MODEL) | {"max_tokens": TOKENS}) as stream:
            texts.append(stream.read_to_end().text)
    assert len(set(texts)) == 3
    assert texts[0] == texts[3]
    stack.until_idle()
    stack.assert_settled()

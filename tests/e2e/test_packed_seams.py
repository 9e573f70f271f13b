"""Packed rows as people meet them: a volunteer names a slow line, an administrator allows a codec, a route uses it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest
import requests

from tests.e2e.answers import a_long_chat
from tests.e2e.processes import DEADLINE_S
from tests.e2e.stack import NodePlan, Stack, a_stack
from tests.simulators.fake_model import write_fake_model

pytestmark = [pytest.mark.e2e, pytest.mark.native]

ADMIN, MODEL = "dora", "wide"
WIDTH = 64
TOKENS = 24
# 125 bytes a second: a row of any codec takes far longer than a stage.
SLOW_LINE = ("--carrier", "relay", "--upload-mbit", "0.001")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("packed")
    model = write_fake_model(folder / "wide.gguf", width=WIDTH, name=MODEL)
    with a_stack(folder, {MODEL: model}) as stack:
        stack.create_user(ADMIN, "--admin")
        stack.launch_all([NodePlan(f"node-{layers[0]}", MODEL, layers, SLOW_LINE) for layers in ("0:4", "4:8")])
        yield stack


@pytest.fixture(scope="module")
def admin(stack: Stack) -> requests.Session:
    """An administrator's browser."""
    session, login = requests.Session(), f"{stack.site_url}/admin/login/"
    session.get(login, timeout=DEADLINE_S)
    form = {"username": ADMIN, "password": stack.passwords[ADMIN], "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    assert session.post(login, data=form, headers={"Referer": login}, timeout=DEADLINE_S).ok
    return session


def allow(stack: Stack, admin: requests.Session, codec: str) -> None:
    """Choose the model's coarsest codec on its page."""
    page = f"{stack.site_url}/admin/catalog/model/1/change/"
    shown = admin.get(page, timeout=DEADLINE_S).text
    (template,) = re.findall(r'<textarea name="chat_template"[^>]*>\r?\n?(.*?)</textarea>', shown, re.DOTALL)
    form = {
        "name": MODEL,
        "is_listed": "on",
        "prompt_micros": "3",
        "completion_micros": "7",
        "chat_template": html.unescape(template),
        "coarsest_codec": codec,
        "csrfmiddlewaretoken": admin.cookies["csrftoken"],
    }
    answer = admin.post(page, data=form, headers={"Referer": page}, timeout=DEADLINE_S)
    assert "was changed successfully" in answer.text, re.findall(r"errorlist[^<]*<li>([^<]*)", answer.text)


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

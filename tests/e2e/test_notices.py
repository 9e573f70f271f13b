"""Nodes that routes cannot use: the client, the administrator and the volunteer each see why, until it is mended."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import requests

from tests.e2e.answers import a_chat
from tests.e2e.conftest import CONTEXT, fake_models
from tests.e2e.processes import DEADLINE_S, until
from tests.e2e.stack import NodePlan, Stack, a_stack

pytestmark = [pytest.mark.e2e, pytest.mark.native]

ADMIN = "dora"
SHORT_CONTEXT = ("--context", "1024")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A site that offers one model; `foreign` is a file of the same shape that it does not know."""
    folder = tmp_path_factory.mktemp("notices")
    models = fake_models(folder, ("offered", "foreign"))
    with a_stack(folder, {"offered": models["offered"]}) as stack:
        stack.models["foreign"] = models["foreign"]
        stack.create_user(ADMIN, "--admin")
        yield stack


@pytest.fixture(scope="module")
def admin(stack: Stack) -> requests.Session:
    """An administrator's browser."""
    session, login = requests.Session(), f"{stack.site_url}/admin/login/"
    session.get(login, timeout=DEADLINE_S)
    form = {"username": ADMIN, "password": stack.passwords[ADMIN], "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    assert session.post(login, data=form, headers={"Referer": login}, timeout=DEADLINE_S).ok
    return session


def node_page(stack: Stack, admin: requests.Session, name: str) -> str:
    node_id = stack.agent_status(name)["node_id"]
    return admin.get(f"{stack.site_url}/admin/nodes/node/{node_id}/change/", timeout=DEADLINE_S).text


def until_told(stack: Stack, name: str, code: str) -> str:
    """Wait for a notice; its words."""
    until(lambda: stack.agent_status(name)["notice_code"] == code, f"{name} is told {code!r}")
    return str(stack.agent_status(name)["notice"])


def log_of(stack: Stack, name: str) -> str:
    return stack.nodes[name].program.log.read_text(encoding="utf-8")


def test_a_file_that_is_no_model_of_the_site(stack: Stack, admin: requests.Session) -> None:
    stack.launch_all([NodePlan("frida", "foreign", "0:8", CONTEXT)])
    words = until_told(stack, "frida", "artifact_unknown")
    assert "not that of any model of this site; it may be damaged, incomplete or another quantisation" in words
    assert re.search(r"WARNING .*not that of any model of this site.*\[artifact_unknown\]", log_of(stack, "frida"))
    assert "not that of any model of this site" in node_page(stack, admin, "frida")
    assert stack.client.post(a_chat("offered")).json()["error"]["code"] == "no_route"
    assert log_of(stack, "frida").count("[artifact_unknown]") == 1
    stack.command("import-model", str(stack.models["foreign"]), "--name", "foreign")
    assert until_told(stack, "frida", "") == ""
    assert "not that of any model" not in node_page(stack, admin, "frida")
    assert stack.client.post(a_chat("foreign", max_tokens=4)).status_code == 200


def test_nodes_whose_contracts_differ(stack: Stack, admin: requests.Session) -> None:
    stack.launch_all([NodePlan("anna", "offered", "0:4", CONTEXT)])
    stack.launch_all([NodePlan("berta", "offered", "4:8", SHORT_CONTEXT)])
    words = until_told(stack, "berta", "contract_mismatch")
    assert "(context 1024, theirs 32768)" in words
    assert stack.agent_status("anna")["notice"] == ""
    refusal = stack.client.post(a_chat("offered"))
    assert (refusal.status_code, refusal.json()["error"]["code"]) == (503, "contract_mismatch")
    assert "[contract_mismatch]" in log_of(stack, "berta")
    assert "(context 1024, theirs 32768)" in node_page(stack, admin, "berta")
    assert "theirs" not in node_page(stack, admin, "anna")
    # The control: with the same context it is a route.
    stack.launch_all([NodePlan("clara", "offered", "4:8", CONTEXT)])
    until(lambda: stack.client.post(a_chat("offered", max_tokens=4)).status_code == 200, "anna and clara serve")
    assert stack.agent_status("clara")["notice"] == ""

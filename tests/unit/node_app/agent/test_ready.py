"""When a ready line is due, with a site and without one."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.shard_facts import Carrier
from node_app.agent.events import SelfTest
from node_app.agent.ready import ReadyLine, is_ready
from node_app.agent.reporting import PeerListener
from node_app.agent.state import AgentState, WorkerPhase, WorkerState

if TYPE_CHECKING:
    from node_app.agent.agent import Agent

SERVING = WorkerState(phase=WorkerPhase.SERVING, self_test=SelfTest.PASSED, pid=7)
LENT = AgentState(
    worker=SERVING, node_id="n", is_control_connected=True, is_data_connected=True, revision=3, stored_revision=3
)
OWN = AgentState(worker=SERVING, has_site=False)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (LENT, True),
        (replace(LENT, stored_revision=2), False),
        (replace(LENT, worker=replace(LENT.worker, self_test=SelfTest.PUT_OFF)), False),
        (replace(LENT, is_data_connected=False), False),
        (replace(LENT, is_control_connected=False), False),
        (replace(LENT, is_paused=True), False),
        (OWN, True),
        (replace(OWN, worker=WorkerState(phase=WorkerPhase.LOADED)), False),
    ],
)
def test_ready_means_that_a_request_finds_the_node(state: AgentState, *, expected: bool) -> None:
    assert is_ready(state) is expected


def an_agent(state: AgentState) -> Agent:
    settings = SimpleNamespace(name="attic", carrier=Carrier.AUTO)
    return cast("Agent", SimpleNamespace(state=state, settings=settings, worker=SimpleNamespace(peers=PeerListener())))


@pytest.mark.parametrize(("once", "lines"), [(False, 2), (True, 1)])
def test_a_line_is_written_when_it_begins_to_serve_and_again_after_it_had_stopped(*, once: bool, lines: int) -> None:
    stream = io.StringIO()
    ready = ReadyLine("0:4", "http://127.0.0.1:8080/v1", stream, once=once)
    down = replace(OWN, worker=WorkerState())
    for state in (down, OWN, OWN, down, OWN):
        ready.observe(an_agent(state))
    written = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(written) == lines
    assert written[0]["api_url"] == "http://127.0.0.1:8080/v1"
    assert (written[0]["node_id"], written[0]["worker_pid"]) == ("", 7)

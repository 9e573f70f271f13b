"""Every way for two workers to reach each other: one listens, the other, none, and a route of both carriers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.answers import a_chat, a_long_chat
from tests.e2e.conftest import fake_models
from tests.e2e.stack import NodePlan, Stack, a_stack

pytestmark = [pytest.mark.e2e, pytest.mark.native]

SILENT = ("--link-listen", "none")
RELAYED = ("--carrier", "relay")
# By model: head to tail, what each node is started with, and the carrier over which each stage's rows come in.
ROUTES: dict[str, tuple[tuple[tuple[str, tuple[str, ...]], ...], list[str]]] = {
    "only-the-head-listens": ((("0:4", ()), ("4:8", SILENT)), ["direct", "direct"]),
    "only-the-tail-listens": ((("0:4", SILENT), ("4:8", ())), ["direct", "direct"]),
    "neither-listens": ((("0:4", SILENT), ("4:8", SILENT)), ["relay", "relay"]),
    "mixed": ((("0:3", ()), ("3:5", SILENT), ("5:8", RELAYED)), ["relay", "direct", "relay"]),
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("listens")
    with a_stack(folder, fake_models(folder, tuple(ROUTES))) as stack:
        stack.launch_all(
            [
                NodePlan(f"{model}-{stage}", model, layers, options)
                for model, (nodes, _) in ROUTES.items()
                for stage, (layers, options) in enumerate(nodes)
            ]
        )
        yield stack


@pytest.mark.parametrize("model", list(ROUTES))
def test_every_route_serves_over_the_carriers_it_has(stack: Stack, model: str) -> None:
    nodes, carriers = ROUTES[model]
    with stack.client.stream(a_long_chat(model) | {"max_tokens": 64}) as stream:
        stream.read_to_end()
    print(f"{model}: carriers {stream.carriers}, {stream.deltas} tokens")
    assert stream.is_done, stream.error
    assert (stream.carriers, stream.deltas) == (carriers, 64)
    layers = [f"{stage['layer_begin']}:{stage['layer_end']}" for stage in stream.stages]
    assert layers == [planned for planned, _ in nodes]


def test_the_carrier_changes_no_token(stack: Stack) -> None:
    """The same weights behind every model: FakeEngine's arithmetic depends on layers and tokens alone."""
    texts = {
        model: stack.client.post(a_chat(model, max_tokens=48, seed=5)).json()["choices"][0]["message"]["content"]
        for model in ROUTES
    }
    assert len(set(texts.values())) == 1
    stack.until_idle()
    stack.assert_settled()

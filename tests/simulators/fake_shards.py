"""FakeEngine shards and generations on them, the same for simulated and for native workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshnet.ids import SessionKey
from meshnet.v1 import session_pb2, worker_pb2
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import RouteTerms
from tests.vectors.engine_cases import PROMPT

if TYPE_CHECKING:
    from tests.simulators.bridged_route import BridgedRoute

N_LAYERS = 8
WIDTH = 16
KEY = SessionKey(bytes(range(16)), 1)


def load_request(layer_begin: int, layer_end: int, *, width: int = WIDTH, **limits: Any) -> worker_pb2.LoadRequest:
    """A shard of the fake model; `limits` are fields of the request, `step_us` and `step_fixed_us` of the engine."""
    times = {name: limits.pop(name, 0) for name in ("step_us", "step_fixed_us")}
    return worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_FAKE,
        fake=worker_pb2.FakeModel(n_layers=N_LAYERS, width=width, **times),
        layers=session_pb2.LayerRange(layer_begin=layer_begin, layer_end=layer_end),
        context_length=limits.pop("context_length", 4096),
        artifact_digest=b"a" * 32,
        **limits,
    )


def terms(**changes: object) -> RouteTerms:
    """The terms of a generation, changed field by field."""
    fields: dict[str, Any] = {"key": KEY, "prompt": tuple(PROMPT), "max_tokens": 40}
    return RouteTerms(**(fields | changes))


async def open_all(route: BridgedRoute, given: RouteTerms) -> PlainGateway:
    """Open on every stage through the bridges, or fail the test with the refusal."""
    refused = [(reply.code, reply.message) for reply in await route.open(given) if not reply.accepted]
    assert not refused
    return PlainGateway(route, given)

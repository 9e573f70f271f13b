"""The servers start once; each module has its own two site processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cluster_parts
from tests.cluster.servers import RunningServers, running_servers
from tests.cluster.sites import Sites, two_sites
from tests.e2e.conftest import CONTEXT, fake_models
from tests.e2e.stack import NodePlan

# Each token passes the relay twice more: an answer takes long enough for a site to end and come back meanwhile.
RELAYED = (*CONTEXT, "--carrier", "relay")
# By model, whose name says at which site its node has its control connection.
PLANS = {
    "at-a": (("a", NodePlan("anna", "at-a", "0:8", CONTEXT)),),
    "at-b": (("b", NodePlan("bert", "at-b", "0:8", CONTEXT)),),
    "across": (("a", NodePlan("carl", "across", "0:4", RELAYED)), ("b", NodePlan("dora", "across", "4:8", RELAYED))),
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServers]:
    found = cluster_parts.find()
    assert found is not None  # the marker `cluster` has been checked
    with running_servers(found, tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, servers: RunningServers) -> Iterator[Sites]:
    folder = tmp_path_factory.mktemp("sites")
    with two_sites(folder, servers, fake_models(folder, tuple(PLANS))) as running:
        placed = [(running.named(name), plan) for plans in PLANS.values() for name, plan in plans]
        for node in [site.launch(plan) for site, plan in placed]:
            node.program.ready()
        yield running

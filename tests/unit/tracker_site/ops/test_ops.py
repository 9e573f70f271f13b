from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.site import wire
from tests.site.serving import KEY, serve
from tracker_site.billing import holds
from tracker_site.billing.ledger import grant
from tracker_site.nodes.models import Node

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from tracker_site.accounts.models import User


@pytest.mark.django_db
def test_health() -> None:
    response = Client().get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert Client().post("/healthz").status_code == 405


def test_metrics_count(alice: User, doras_client: Client) -> None:
    Node.objects.create(owner=alice, name="attic", public_key=KEY.hex())
    serve(KEY, "first", wire.shard())
    grant(alice, 100, idempotency_key="1")
    holds.place(alice, 10, "r1")
    figures = doras_client.get("/metrics.json").json()
    assert figures["nodes_present"] == {"serving": 1}
    assert (figures["nodes_enrolled"], figures["shards"], figures["sessions"]) == (1, 1, 1)
    assert (figures["holds_open"], figures["transfers"], figures["ledger_sum_micros"]) == (1, 2, 0)


def test_metrics_are_for_administrators(alices_client: Client, settings: SettingsWrapper) -> None:
    def status(client: Client, token: str | None = None) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return client.get("/metrics.json", headers=headers).status_code

    assert [status(Client()), status(alices_client), status(Client(), ""), status(Client(), "guess")] == [403] * 4
    settings.METRICS_TOKEN = "watcher"
    assert [status(Client(), "watcher"), status(Client(), "watcher2"), status(Client())] == [200, 403, 403]

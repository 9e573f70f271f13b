"""The admin: every page opens for an administrator and for nobody else; what is a fact cannot be edited."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.site import wire
from tests.site.people import make_model, make_user
from tests.unit.site_core.conftest import signed_in
from tests.unit.site_core.test_presence import KEY, serve
from tracker_site.accounts.models import ApiKey, NodeToken
from tracker_site.billing import holds
from tracker_site.billing.ledger import balance_micros, grant
from tracker_site.billing.models import Account, Hold, Transfer
from tracker_site.nodes.models import LoadedShard, Node

if TYPE_CHECKING:
    from tracker_site.accounts.models import User

OURS = [model for model in admin.site._registry if model.__module__.startswith("tracker_site.")]
NONCE_KEY = "0" * 32


@pytest.fixture
def everything(alice: User) -> None:
    """One row of each kind."""
    ApiKey.issue(alice, "laptop")
    NodeToken.issue(alice, "attic")
    make_model()
    Node.objects.create(owner=alice, name="attic", public_key=KEY.hex())
    serve(KEY, "first", wire.shard())
    grant(alice, 100, idempotency_key="1")
    holds.place(alice, 10, "r1")


def test_all_our_models_are_there() -> None:
    names = {model._meta.model_name for model in OURS}
    assert names >= {"user", "apikey", "nodetoken", "node", "loadedshard", "model", "account", "transfer", "hold"}


def test_every_page_opens(everything: None, doras_client: Client) -> None:
    opened = 0
    for model in OURS:
        label = f"{model._meta.app_label}_{model._meta.model_name}"
        row = model._default_manager.first()
        if row is None:
            continue
        for name, arguments in [("changelist", []), ("change", [row.pk])]:
            response = doras_client.get(reverse(f"admin:{label}_{name}", args=arguments))
            assert response.status_code == 200, (label, name)
            opened += 1
    assert opened >= 18


@pytest.mark.parametrize("who", ["stranger", "alice", "staff without rights"])
def test_nobody_else_sees_them(everything: None, alice: User, who: str) -> None:
    client = Client()
    if who == "alice":
        client = signed_in(alice)
    elif who != "stranger":
        client = signed_in(make_user("erin", is_staff=True))
    for model in OURS:
        url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        assert client.get(url).status_code in {302, 403}, url
    for url in (reverse("admin:billing_account_grant"), reverse("admin:billing_account_audit")):
        assert client.get(url).status_code in {302, 403}


@pytest.mark.parametrize("model", [ApiKey, NodeToken, LoadedShard, Account, Transfer, Hold])
def test_facts_are_not_edited(everything: None, doras_client: Client, model: type) -> None:
    row = model._default_manager.first()
    label = f"{model._meta.app_label}_{model._meta.model_name}"
    before = model._default_manager.filter(pk=row.pk).values().get()
    assert doras_client.get(reverse(f"admin:{label}_add")).status_code == 403
    assert doras_client.post(reverse(f"admin:{label}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    doras_client.post(reverse(f"admin:{label}_change", args=[row.pk]), {"balance_micros": 9, "amount_micros": 9})
    assert model._default_manager.filter(pk=row.pk).values().get() == before


def test_a_grant_is_booked_once_per_form(alice: User, doras_client: Client) -> None:
    url = reverse("admin:billing_account_grant")
    assert doras_client.get(url).status_code == 200
    form = {"user": alice.pk, "credits": "2.5", "note": "thanks", "key": NONCE_KEY}
    for _ in range(2):
        assert doras_client.post(url, form).status_code == 302
    assert balance_micros(alice) == 2_500_000
    assert Transfer.objects.get().note == "by dora: thanks"


@pytest.mark.parametrize("change", [{"credits": "0"}, {"credits": "-1"}, {"credits": "x"}, {"user": 0}, {"key": "x"}])
def test_grants_that_make_no_sense(alice: User, doras_client: Client, change: dict[str, object]) -> None:
    form = {"user": alice.pk, "credits": "2.5", "key": NONCE_KEY, **change}
    assert doras_client.post(reverse("admin:billing_account_grant"), form).status_code == 200
    assert not Transfer.objects.exists()


def test_keys_can_be_revoked(alice: User, doras_client: Client) -> None:
    key, raw = ApiKey.issue(alice, "laptop")
    action = {"action": "revoke_selected", "_selected_action": [key.pk]}
    page = doras_client.post(reverse("admin:accounts_apikey_changelist"), action, follow=True).content.decode()
    assert "Revoked 1 of 1" in page
    assert ApiKey.find(raw) is None


def test_the_register_says_who_is_here_and_why_not(everything: None, doras_client: Client) -> None:
    url = reverse("admin:nodes_node_changelist")
    page = doras_client.get(url).content.decode()
    assert "serving" in page
    assert "[0, 8) of 8" in page
    Node.objects.update(lease_expires_at=timezone.now() - timedelta(hours=1), reason="no report within the lease")
    page = doras_client.get(url).content.decode()
    assert "offline" in page
    assert "no report within the lease" in page


def test_a_contract_problem_shows(everything: None, doras_client: Client) -> None:
    LoadedShard.objects.update(problem="contract 64 differs from 63")
    url = reverse("admin:nodes_node_change", args=[Node.objects.get().pk])
    assert "contract 64 differs from 63" in doras_client.get(url).content.decode()


def test_nodes_are_blocked_and_unblocked(everything: None, doras_client: Client) -> None:
    node, url = Node.objects.get(), reverse("admin:nodes_node_changelist")
    for action, blocked in [("block", True), ("unblock", False)]:
        doras_client.post(url, {"action": action, "_selected_action": [str(node.pk)]})
        node.refresh_from_db()
        assert node.is_blocked is blocked


@pytest.mark.django_db(transaction=True)
def test_the_audit_page_tells_sound_from_tampered() -> None:
    alice, dora = make_user("alice"), make_user("dora", is_staff=True, is_superuser=True)
    grant(alice, 100, idempotency_key="1")
    client, url = signed_in(dora), reverse("admin:billing_account_audit")
    assert "the ledger sums to zero" in client.get(url, follow=True).content.decode()
    Account.objects.filter(user=alice).update(balance_micros=101)
    assert "balances sum to 1" in client.get(url, follow=True).content.decode()

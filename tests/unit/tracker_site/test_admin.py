"""The admin: every page opens for an administrator and for nobody else; what is a fact cannot be edited."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from meshnet.frame import Codec
from tests.site import wire
from tests.site.people import make_model, make_user, signed_in
from tests.site.serving import KEY, serve
from tracker_site.accounts.models import ApiKey, NodeToken
from tracker_site.billing import holds
from tracker_site.billing.ledger import balance_micros, grant
from tracker_site.billing.models import Account, Hold, Transfer
from tracker_site.catalog.models import Model
from tracker_site.gateway.models import GenerationRecord, GenerationStage
from tracker_site.gateway.served_models import _served
from tracker_site.nodes.models import LoadedShard, Node

if TYPE_CHECKING:
    from django.db.models import Model as ModelBase

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
    assert "0-7 of 8" in page
    Node.objects.update(lease_expires_at=timezone.now() - timedelta(hours=1), reason="no report within the lease")
    page = doras_client.get(url).content.decode()
    assert "offline" in page
    assert "no report within the lease" in page


def test_a_problem_shows_in_the_list_and_on_the_nodes_page_and_can_be_filtered(
    everything: None, doras_client: Client
) -> None:
    LoadedShard.objects.update(problem_code="contract_mismatch", problem="contract 64 differs from 63")
    node_page = doras_client.get(reverse("admin:nodes_node_change", args=[Node.objects.get().pk])).content.decode()
    assert "contract 64 differs from 63" in node_page
    assert "contract differs" in doras_client.get(reverse("admin:nodes_loadedshard_changelist")).content.decode()
    for empty, shown in ((0, True), (1, False)):
        asked = {"shards__problem_code__isempty": empty}
        page = doras_client.get(reverse("admin:nodes_node_changelist"), asked).content.decode()
        assert ("contract differs" in page) is shown


def test_shards_are_called_by_their_models_name(everything: None, doras_client: Client) -> None:
    assert "fake, layers 0-7 of 8" in doras_client.get(reverse("admin:nodes_node_changelist")).content.decode()
    Model.objects.all().delete()
    assert "000102030405, layers 0-7 of 8" in doras_client.get(reverse("admin:nodes_node_changelist")).content.decode()
    assert "unknown" in doras_client.get(reverse("admin:nodes_loadedshard_changelist")).content.decode()


def act(client: Client, label: str, action: str, row: ModelBase) -> str:
    form = {"action": action, "_selected_action": [str(row.pk)]}
    return client.post(reverse(f"admin:{label}_changelist"), form, follow=True).content.decode()


def test_models_are_offered_and_not(everything: None, doras_client: Client) -> None:
    model = Model.objects.get()
    for action, is_listed, said in [("delist_models", False, "Stopped offering 1"), ("list_models", True, "Offered 1")]:
        assert said in act(doras_client, "catalog_model", action, model)
        model.refresh_from_db()
        assert model.is_listed is is_listed


def test_how_far_a_models_rows_may_be_packed_is_chosen_on_its_page(everything: None, doras_client: Client) -> None:
    model = Model.objects.get()
    assert model.coarsest_codec == "raw"
    page = reverse("admin:catalog_model_change", args=[model.pk])
    form = {
        "name": model.name,
        "is_listed": "on",
        "prompt_micros": model.prompt_micros,
        "completion_micros": model.completion_micros,
        "chat_template": model.chat_template,
    }
    for codec, kept in (("bf16", "bf16"), ("f16", "bf16"), ("q8_0", "q8_0")):
        doras_client.post(page, form | {"coarsest_codec": codec})
        model.refresh_from_db()
        assert model.coarsest_codec == kept
    assert _served(model).coarsest_codec is Codec.Q8_0


def test_recipes_are_mixed_only_where_an_administrator_allows_it(everything: None, doras_client: Client) -> None:
    model = Model.objects.get()
    page = reverse("admin:catalog_model_change", args=[model.pk])
    form = {
        "name": model.name,
        "is_listed": "on",
        "prompt_micros": model.prompt_micros,
        "completion_micros": model.completion_micros,
        "chat_template": model.chat_template,
        "coarsest_codec": model.coarsest_codec,
    }
    allowed = [_served(model).allows_mixed_recipes]
    for switch in ({"allows_mixed_recipes": "on"}, {}):
        doras_client.post(page, form | switch)
        model.refresh_from_db()
        allowed.append(_served(model).allows_mixed_recipes)
    assert allowed == [False, True, False]


def test_people_are_deactivated_but_never_oneself(alice: User, dora: User, doras_client: Client) -> None:
    _, raw = ApiKey.issue(alice, "laptop")
    assert "Deactivated 1 user" in act(doras_client, "accounts_user", "deactivate", alice)
    assert ApiKey.find(raw) is None
    assert "Deactivated 0 user" in act(doras_client, "accounts_user", "deactivate", dora)
    assert "Activated 1 user" in act(doras_client, "accounts_user", "activate", alice)
    assert ApiKey.find(raw) is not None


def test_a_node_that_is_removed_is_gone_with_its_shards(everything: None, doras_client: Client) -> None:
    form = {"action": "delete_selected", "_selected_action": [str(Node.objects.get().pk)], "post": "yes"}
    doras_client.post(reverse("admin:nodes_node_changelist"), form)
    assert (Node.objects.count(), LoadedShard.objects.count()) == (0, 0)


def more_of_everything(first: int, count: int) -> None:
    for number in range(first, first + count):
        user = make_user(f"user {number}")
        ApiKey.issue(user, f"key {number}")
        NodeToken.issue(user, f"token {number}")
        key = bytes([number]) * 32
        Node.objects.create(owner=user, name=f"node {number}", public_key=key.hex())
        serve(key, f"channel {number}", wire.shard(0, 3), wire.shard(3, 8))
        grant(user, 100, idempotency_key=f"grant {number}")
        holds.place(user, 10, f"hold {number}")
        make_model(f"model {number}", artifact_digest=key)
        record = GenerationRecord.objects.create(
            id=f"chatcmpl-{number}", user=user, model_name="fake", face="chat", ending="finished", prompt_tokens=1,
            max_tokens=2, completion_tokens=2, charge_micros=3, elapsed_ms=4, tokens_per_s=5.0,
        )  # fmt: skip
        GenerationStage.objects.create(
            generation=record, stage=0, node_id="1", node_name="n", owner=user, layer_begin=0, layer_end=8,
            carrier="direct",
        )  # fmt: skip


@pytest.mark.parametrize("model", OURS, ids=lambda model: model._meta.model_name)
def test_a_list_of_many_costs_as_many_queries_as_one_of_few(doras_client: Client, model: type[ModelBase]) -> None:
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    make_model()
    more_of_everything(1, 2)
    doras_client.get(url)  # what is cached for good is cached
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            page = doras_client.get(url)
        assert page.status_code == 200
        counts.append((len(queries), page.context["cl"].result_count))
        more_of_everything(10 * len(counts), 10)
    (few, rows_before), (many, rows_after) = counts
    print(f"{url}: {few} queries for {rows_before} rows, {many} for {rows_after}")
    assert rows_after >= rows_before + 10
    assert many == few
    with CaptureQueriesContext(connection) as searching:
        assert doras_client.get(url, {"q": "user 1"}).status_code == 200
    assert len(searching) <= few + 1


def test_a_query_for_each_row_would_be_noticed(doras_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    monkeypatch.setattr(admin.site._registry[Hold], "list_select_related", False)
    monkeypatch.setattr(ChangeList, "has_related_field_in_list_display", lambda self: False)
    with pytest.raises(AssertionError, match="assert"):
        test_a_list_of_many_costs_as_many_queries_as_one_of_few(doras_client, Hold)


def test_times_are_short_and_sortable(alice: User, doras_client: Client) -> None:
    hold = holds.place(alice, 0, "r1")
    Hold.objects.update(created_at=datetime(2026, 2, 3, 14, 5, 6, tzinfo=UTC))
    page = doras_client.get(reverse("admin:billing_hold_changelist")).content.decode()
    assert hold is not None
    assert "2026-02-03 14:05:06" in page


def test_money_is_shown_in_credits(alice: User, doras_client: Client) -> None:
    grant(alice, 2_500_000, idempotency_key="1")
    holds.place(alice, 1_250_000, "r1")
    assert "1.25" in doras_client.get(reverse("admin:billing_hold_changelist")).content.decode()
    assert "2.5" in doras_client.get(reverse("admin:billing_transfer_changelist")).content.decode()
    make_model(prompt_micros=1_500_000)
    assert "1.5" in doras_client.get(reverse("admin:catalog_model_changelist")).content.decode()


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

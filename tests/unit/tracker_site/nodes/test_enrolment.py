"""POST /api/nodes/enrol."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tracker_site.accounts.models import ApiKey, NodeToken
from tracker_site.nodes.models import Node

if TYPE_CHECKING:
    from django.http import HttpResponse
    from pytest_django.fixtures import SettingsWrapper

    from tracker_site.accounts.models import User

pytestmark = pytest.mark.usefixtures("empty_cache")

URL = "/api/nodes/enrol"
KEY = "ab" * 32


def post(document: object) -> HttpResponse:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Client(enforce_csrf_checks=True).post(URL, body, content_type="application/json")


def code_of(response: HttpResponse) -> str:
    return str(response.json()["error"]["code"])


@pytest.fixture
def token(alice: User) -> str:
    return NodeToken.issue(alice, "attic")[1]


def test_it_works(token: str, alice: User) -> None:
    response = post({"token": token, "public_key": KEY, "name": " attic\n"})
    assert response.status_code == 201
    node = Node.objects.get()
    assert response.json() == {"node_id": str(node.pk)}
    assert (node.owner, node.name, node.public_key, node.state) == (alice, "attic", KEY, Node.OFFLINE)
    assert NodeToken.objects.get().last_used_at is not None


def test_again_by_its_owner_it_is_the_same_node(token: str) -> None:
    first = post({"token": token, "public_key": KEY, "name": "attic"})
    again = post({"token": token, "public_key": KEY.upper(), "name": "cellar"})
    assert (again.status_code, again.json()) == (200, first.json())
    assert Node.objects.get().name == "cellar"


def test_by_somebody_else_it_is_refused(token: str, bob: User) -> None:
    post({"token": token, "public_key": KEY, "name": "attic"})
    bobs = NodeToken.issue(bob, "bob")[1]
    response = post({"token": bobs, "public_key": KEY, "name": "mine"})
    assert (response.status_code, code_of(response)) == (409, "key_enrolled_elsewhere")
    assert Node.objects.get().name == "attic"


@pytest.mark.parametrize("kind", ["wrong", "empty prefix", "revoked", "api key", "inactive user", "far too long"])
def test_tokens_that_open_nothing(token: str, alice: User, kind: str) -> None:
    shown = {"wrong": token[:-1] + "!", "empty prefix": token[3:], "far too long": "mt_" + "x" * 2000}.get(kind, token)
    if kind == "revoked":
        NodeToken.objects.get().revoke()
    elif kind == "api key":
        shown = ApiKey.issue(alice, "key")[1]
    elif kind == "inactive user":
        alice.is_active = False
        alice.save()
    response = post({"token": shown, "public_key": KEY, "name": "attic"})
    assert (response.status_code, code_of(response)) == (401, "bad_token")
    assert not Node.objects.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"token": 5},
        {"token": ""},
        {"public_key": "ab" * 31},
        {"public_key": "zz" * 32},
        {"public_key": " " * 64},
        {"public_key": None},
        {"name": ""},
        {"name": "\n\x00"},
        {"name": ["attic"]},
    ],
    ids=str,
)
def test_wrong_fields(token: str, change: dict[str, object]) -> None:
    response = post({"token": token, "public_key": KEY, "name": "attic", **change})
    assert (response.status_code, code_of(response)) == (400, "bad_request")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 4000], ids=repr)
@pytest.mark.django_db
def test_bodies_that_are_no_object(body: bytes) -> None:
    response = post(body)
    assert (response.status_code, code_of(response)) == (400, "bad_request")


@pytest.mark.django_db
def test_an_oversized_body() -> None:
    response = post(b"x" * 4097)
    assert (response.status_code, code_of(response)) == (413, "body_too_large")


@pytest.mark.parametrize("method", ["get", "put", "delete", "patch", "head"])
def test_other_methods(method: str) -> None:
    response = getattr(Client(), method)(URL)
    assert (response.status_code, response["Allow"]) == (405, "POST")


def test_a_blocked_node_stays_out(token: str) -> None:
    post({"token": token, "public_key": KEY, "name": "attic"})
    Node.objects.update(is_blocked=True)
    response = post({"token": token, "public_key": KEY, "name": "attic"})
    assert (response.status_code, code_of(response)) == (403, "node_blocked")


def test_nodes_per_user_are_limited(token: str, settings: SettingsWrapper) -> None:
    settings.NODES_PER_USER = 1
    post({"token": token, "public_key": KEY, "name": "attic"})
    response = post({"token": token, "public_key": "cd" * 32, "name": "attic"})
    assert (response.status_code, code_of(response)) == (403, "too_many_nodes")
    assert post({"token": token, "public_key": KEY, "name": "attic"}).status_code == 200


def test_attempts_of_one_address_are_limited(token: str, settings: SettingsWrapper) -> None:
    settings.ENROLMENTS_PER_MINUTE = 2
    document = {"token": "mt_wrong", "public_key": KEY, "name": "attic"}
    assert [post(document).status_code for _ in range(3)] == [401, 401, 429]
    assert post({**document, "token": token})["Retry-After"] == "60"
    elsewhere = Client(REMOTE_ADDR="192.0.2.7").post(URL, document, content_type="application/json")
    assert elsewhere.status_code == 401

"""Users' pages, keys and tokens."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.utils import timezone

from tests.site.people import PASSWORD
from tracker_site.accounts.authentication import authenticate_key, bearer_secret
from tracker_site.accounts.bearer import digest_of, draw_secret
from tracker_site.accounts.models import ApiKey, NodeToken, User

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.usefixtures("empty_cache")

KINDS = [("keys", ApiKey), ("tokens", NodeToken)]


class TestSecrets:
    def test_only_the_digest_is_stored(self, alice: User) -> None:
        key, raw = ApiKey.issue(alice, "laptop")
        assert len(raw) > 40
        assert key.digest == digest_of(raw)
        assert key.shown_prefix == raw[:12]
        stored = [str(value) for value in ApiKey.objects.values_list().get()]
        assert all(raw not in value for value in stored)
        assert raw not in repr(draw_secret("mk")) + repr(key) + str(key)

    def test_two_are_never_equal(self, alice: User) -> None:
        assert ApiKey.issue(alice, "a")[1] != ApiKey.issue(alice, "a")[1]

    def test_a_key_opens(self, alice: User) -> None:
        _, raw = ApiKey.issue(alice, "laptop")
        key = authenticate_key(raw)
        assert key is not None
        assert key.user == alice

    @pytest.mark.parametrize("how", ["unknown", "token", "revoked", "inactive", "nul", "surrogate", "blank"])
    def test_what_does_not_open(self, alice: User, how: str) -> None:
        key, raw = ApiKey.issue(alice, "laptop")
        if how == "revoked":
            key.revoke()
        elif how == "inactive":
            User.objects.update(is_active=False)
        shown = {
            "unknown": draw_secret("mk").raw,
            "token": NodeToken.issue(alice, "t")[1],
            "nul": raw + "\0",
            "surrogate": "mk_\ud800",
            "blank": "",
        }
        assert authenticate_key(shown.get(how, raw)) is None

    def test_the_time_of_use_is_written_once_a_minute(self, alice: User) -> None:
        key, _ = ApiKey.issue(alice, "laptop")
        start = timezone.now()
        for seconds, stored_s in [(0, 0), (30, 0), (59, 0), (61, 61), (100, 61)]:
            key.refresh_from_db()
            key.note_use(start + timedelta(seconds=seconds))
            key.refresh_from_db()
            assert key.last_used_at == start + timedelta(seconds=stored_s)

    def test_revoking_is_final_and_done_once(self, alice: User) -> None:
        key, _ = ApiKey.issue(alice, "laptop")
        assert key.revoke()
        first = key.revoked_at
        assert not key.revoke()
        assert key.revoked_at == first

    @pytest.mark.parametrize(
        ("header", "secret"),
        [
            ("Bearer abc", "abc"),
            ("bearer  abc ", "abc"),
            ("Basic abc", None),
            ("Bearer ", None),
            ("", None),
            ("B", None),
        ],
    )
    def test_the_header(self, header: str, secret: str | None) -> None:
        assert bearer_secret({"Authorization": header}) == secret


class TestIssuing:
    @pytest.mark.parametrize(("kind", "model"), KINDS)
    def test_it_is_shown_once(self, alices_client: Client, kind: str, model: type[ApiKey]) -> None:
        response = alices_client.post(f"/account/{kind}/", {"name": "laptop"})
        assert response.status_code == 200
        assert "no-store" in response["Cache-Control"]
        (raw,) = set(re.findall(r"m[kt]_[A-Za-z0-9_-]{40,}", response.content.decode()))
        assert model.find(raw) is not None
        assert raw not in alices_client.get("/account/").content.decode()

    @pytest.mark.parametrize("name", ["", "   ", "x" * 65])
    def test_it_needs_a_name(self, alices_client: Client, name: str) -> None:
        response = alices_client.post("/account/keys/", {"name": name})
        assert response.status_code == 302
        assert not ApiKey.objects.exists()

    def test_strangers_sign_in_first(self) -> None:
        response = Client().post("/account/keys/", {"name": "laptop"})
        assert response.status_code == 302
        assert response["Location"].startswith("/account/login/")

    def test_other_methods_and_kinds(self, alices_client: Client) -> None:
        assert alices_client.get("/account/keys/").status_code == 405
        assert alices_client.post("/account/locks/").status_code == 404
        assert alices_client.put("/account/").status_code == 405

    def test_forgeries_are_refused(self, alice: User) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(alice)
        assert client.post("/account/keys/", {"name": "laptop"}).status_code == 403
        assert not ApiKey.objects.exists()


class TestRevoking:
    @pytest.mark.parametrize(("kind", "model"), KINDS)
    def test_it_works_and_again_is_fine(
        self, alice: User, alices_client: Client, kind: str, model: type[ApiKey]
    ) -> None:
        row, raw = model.issue(alice, "laptop")
        for _ in range(2):
            assert alices_client.post(f"/account/{kind}/{row.pk}/revoke/").status_code == 302
        assert model.find(raw) is None

    @pytest.mark.parametrize(("kind", "model"), KINDS)
    def test_of_others_it_is_not_found(
        self, alice: User, charlies_client: Client, kind: str, model: type[ApiKey]
    ) -> None:
        row, raw = model.issue(alice, "laptop")
        assert charlies_client.post(f"/account/{kind}/{row.pk}/revoke/").status_code == 404
        assert model.find(raw) is not None

    @pytest.mark.parametrize("pk", ["0", "999999999999999999", "abc", "-1", "1e3", "9" * 30])
    def test_what_does_not_exist(self, alices_client: Client, pk: str) -> None:
        assert alices_client.post(f"/account/keys/{pk}/revoke/").status_code == 404

    def test_other_methods_and_strangers(self, alice: User, alices_client: Client) -> None:
        row, _ = ApiKey.issue(alice, "laptop")
        assert alices_client.get(f"/account/keys/{row.pk}/revoke/").status_code == 405
        assert Client().post(f"/account/keys/{row.pk}/revoke/").status_code == 302
        row.refresh_from_db()
        assert row.revoked_at is None


class TestPages:
    def test_the_overview_lists_ones_own(self, alice: User, bob: User, alices_client: Client) -> None:
        ApiKey.issue(alice, "laptop")
        ApiKey.issue(bob, "workbench")
        page = alices_client.get("/account/").content.decode()
        assert "laptop" in page
        assert "workbench" not in page

    def test_names_are_escaped(self, alice: User, alices_client: Client) -> None:
        ApiKey.issue(alice, "<script>")
        assert "<script>" not in alices_client.get("/account/").content.decode()

    def test_signing_in_and_out(self, alice: User) -> None:
        client = Client()
        assert client.get("/account/login/").status_code == 200
        assert client.post("/account/login/", {"username": "alice", "password": "wrong"}).status_code == 200
        assert client.post("/account/login/", {"username": "alice", "password": PASSWORD})["Location"] == "/account/"
        assert client.get("/account/logout/").status_code == 405
        client.post("/account/logout/")
        assert client.get("/account/").status_code == 302

    def test_nobody_is_sent_elsewhere_after_signing_in(self, alice: User) -> None:
        fields = {"username": "alice", "password": PASSWORD, "next": "https://evil.example/"}
        assert Client().post("/account/login/", fields)["Location"] == "/account/"

    @pytest.mark.django_db
    def test_guessing_is_limited(self) -> None:
        fields = {"username": "alice", "password": "guess"}
        statuses = [Client().post("/account/login/", fields).status_code for _ in range(21)]
        assert statuses == [200] * 20 + [429]

    @pytest.mark.django_db
    def test_registration_is_closed_unless_opened(self, settings: SettingsWrapper) -> None:
        fields = {"username": "erin", "password1": PASSWORD, "password2": PASSWORD}
        assert Client().post("/account/register/", fields).status_code == 403
        settings.OPEN_REGISTRATION = True
        client = Client()
        assert client.post("/account/register/", {**fields, "password2": "other"}).status_code == 200
        assert (
            client.post("/account/register/", {**fields, "password1": "short", "password2": "short"}).status_code == 200
        )
        assert not User.objects.exists()
        assert client.post("/account/register/", fields)["Location"] == "/account/"
        assert client.get("/account/").status_code == 200
        erin = User.objects.get()
        assert (erin.is_staff, erin.is_superuser) == (False, False)

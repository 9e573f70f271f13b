from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.unit.tracker_site.billing.test_ledger import earn
from tracker_site.billing.ledger import balance_micros, grant
from tracker_site.billing.models import Account

if TYPE_CHECKING:
    from tracker_site.accounts.models import User

KEY = "0" * 32


def test_one_sees_ones_own(alice: User, bob: User, alices_client: Client) -> None:
    grant(alice, 1_250_000, idempotency_key="a", note="secret note")
    grant(bob, 7_000_000, idempotency_key="b")
    page = alices_client.get("/account/credits/").content.decode()
    assert "1.25" in page
    assert page.count("<tr>") == 2  # the heading and Alice's grant
    assert "secret note" not in page


def test_earnings_are_converted_once_per_form(alice: User, alices_client: Client) -> None:
    earn(alice, 3_000_000)
    for _ in range(2):
        response = alices_client.post("/account/credits/convert/", {"credits": "1.5", "key": KEY})
        assert response.status_code == 302
    assert balance_micros(alice) == 1_500_000
    assert balance_micros(alice, Account.Kind.EARNINGS) == 1_500_000


@pytest.mark.parametrize("credits_", ["0", "-1", "abc", "", "0.0000001", "1e30", "NaN", "4"])
def test_amounts_that_cannot_be_converted(alice: User, alices_client: Client, credits_: str) -> None:
    earn(alice, 3_000_000)
    response = alices_client.post("/account/credits/convert/", {"credits": credits_, "key": KEY}, follow=True)
    assert "notice error" in response.content.decode()
    assert balance_micros(alice) == 0


def test_strangers_and_other_methods(alices_client: Client) -> None:
    assert Client().get("/account/credits/").status_code == 302
    assert Client().post("/account/credits/convert/").status_code == 302
    assert alices_client.get("/account/credits/convert/").status_code == 405
    assert alices_client.post("/account/credits/").status_code == 405

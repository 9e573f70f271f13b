from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import IntegrityError, connection, transaction

from meshnet.errors import LedgerError
from tracker_site.billing.audit import audit_ledger
from tracker_site.billing.ledger import (
    MAX_AMOUNT_MICROS,
    Entry,
    account_of,
    balance_micros,
    convert_earnings,
    earned_micros,
    grant,
    post,
)
from tracker_site.billing.models import Account, Transfer
from tracker_site.nodes.models import Node

if TYPE_CHECKING:
    from tracker_site.accounts.models import User


def refused(code: str) -> pytest.RaisesExc[LedgerError]:
    return pytest.RaisesExc(LedgerError, check=lambda error: error.code == code)


def test_a_grant_makes_credits_out_of_the_mint(alice: User) -> None:
    grant(alice, 500, idempotency_key="1", note="welcome")
    assert balance_micros(alice) == 500
    assert account_of(None, Account.Kind.MINT).balance_micros == -500


def test_the_same_grant_twice_gives_once(alice: User) -> None:
    first = grant(alice, 500, idempotency_key="1")
    assert grant(alice, 500, idempotency_key="1") == first
    assert balance_micros(alice) == 500


def test_one_key_does_not_serve_two_grants(alice: User, bob: User) -> None:
    grant(alice, 500, idempotency_key="1")
    with refused("idempotency_conflict"):
        grant(alice, 501, idempotency_key="1")
    with refused("idempotency_conflict"):
        grant(bob, 500, idempotency_key="1")
    assert (balance_micros(alice), balance_micros(bob)) == (500, 0)


@pytest.mark.parametrize("amount", [0, -1, MAX_AMOUNT_MICROS + 1])
def test_impossible_amounts_are_refused(alice: User, amount: int) -> None:
    with refused("bad_amount"):
        grant(alice, amount, idempotency_key="1")
    assert not Transfer.objects.exists()


def test_earnings_become_credits_once_and_no_more_than_there_are(alice: User) -> None:
    earn(alice, 70)
    convert_earnings(alice, 50, idempotency_key="a")
    convert_earnings(alice, 50, idempotency_key="a")
    assert (balance_micros(alice), balance_micros(alice, Account.Kind.EARNINGS)) == (50, 20)
    with refused("insufficient_credit"):
        convert_earnings(alice, 21, idempotency_key="b")
    assert (balance_micros(alice), balance_micros(alice, Account.Kind.EARNINGS)) == (50, 20)


def test_what_a_nodes_owner_earned_is_all_that_is_not_spendable_yet(alice: User, bob: User) -> None:
    attic = Node.objects.create(owner=alice, name="attic", public_key="a" * 64)
    cellar = Node.objects.create(owner=alice, name="cellar", public_key="b" * 64)
    others = Node.objects.create(owner=bob, name="other", public_key="c" * 64)
    assert earned_micros(str(attic.pk)) == 0
    grant(alice, 500, idempotency_key="1")
    earn(alice, 70)
    assert earned_micros(str(attic.pk)) == earned_micros(str(cellar.pk)) == 70
    convert_earnings(alice, 50, idempotency_key="a")
    assert (earned_micros(str(attic.pk)), earned_micros(str(others.pk))) == (20, 0)
    gone = str(others.pk)
    others.delete()
    assert earned_micros(gone) == 0


def test_a_booking_is_whole_or_not_at_all(alice: User, bob: User) -> None:
    grant(alice, 100, idempotency_key="1")
    alices, bobs = account_of(alice.pk, Account.Kind.CREDITS), account_of(bob.pk, Account.Kind.EARNINGS)
    entries = [Entry(alices, bobs, 60, Transfer.Kind.EARNING, key) for key in ("x", "y")]
    with refused("insufficient_credit"), transaction.atomic():
        post(entries)
    assert (balance_micros(alice), balance_micros(bob, Account.Kind.EARNINGS)) == (100, 0)
    assert Transfer.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_booking_outside_a_transaction_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="transaction"):
        post([])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE billing_transfer SET amount_micros = 1",
        "DELETE FROM billing_transfer",
        "UPDATE billing_account SET balance_micros = -1 WHERE kind = 'credits'",
        "UPDATE billing_account SET user_id = NULL WHERE kind = 'credits'",
    ],
)
def test_the_database_itself_refuses(alice: User, statement: str) -> None:
    grant(alice, 500, idempotency_key="1")
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert Transfer.objects.get().amount_micros == 500


@pytest.mark.parametrize("amount", [0, -5])
def test_the_database_refuses_amounts_not_above_zero(alice: User, amount: int) -> None:
    mint, spendable = account_of(None, Account.Kind.MINT), account_of(alice.pk, Account.Kind.CREDITS)
    row = Transfer(
        debit_account=mint, credit_account=spendable, amount_micros=amount, kind="grant", idempotency_key="k"
    )
    with pytest.raises(IntegrityError, match="billing_transfer_amount"), transaction.atomic():
        row.save()


def test_there_is_one_mint(alice: User) -> None:
    account_of(None, Account.Kind.MINT)
    with pytest.raises(IntegrityError), transaction.atomic():
        Account.objects.create(kind=Account.Kind.MINT)


@pytest.mark.django_db(transaction=True)
def test_the_audit_finds_a_sound_ledger_sound_and_a_tampered_one_not() -> None:
    from tests.site.people import make_user

    alice = make_user("alice")
    grant(alice, 500, idempotency_key="1")
    found = audit_ledger()
    assert (found.problems, found.balance_sum_micros, found.transfers, found.accounts) == ((), 0, 1, 2)
    # The control: somebody gives away one micro-credit without booking it.
    Account.objects.filter(kind=Account.Kind.CREDITS).update(balance_micros=501)
    found = audit_ledger()
    assert found.balance_sum_micros == 1
    assert len(found.problems) == 2


def earn(user: User, amount: int) -> None:
    with transaction.atomic():
        mint, earnings = account_of(None, Account.Kind.MINT), account_of(user.pk, Account.Kind.EARNINGS)
        post([Entry(mint, earnings, amount, Transfer.Kind.EARNING, f"earn {user.pk}")])

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from meshnet.errors import LedgerError
from tracker_site.billing import holds
from tracker_site.billing.ledger import account_of, balance_micros, grant
from tracker_site.billing.models import Account, Hold, Transfer
from tracker_site.billing.pricing import Share

if TYPE_CHECKING:
    from tracker_site.accounts.models import User

GRANTED = 1000


@pytest.fixture
def alice(alice: User) -> User:
    grant(alice, GRANTED, idempotency_key="alice")
    return alice


def refused(code: str) -> pytest.RaisesExc[LedgerError]:
    return pytest.RaisesExc(LedgerError, check=lambda error: error.code == code)


def balances(user: User) -> tuple[int, int, int]:
    kinds = (Account.Kind.CREDITS, Account.Kind.ESCROW, Account.Kind.EARNINGS)
    credits_, escrow, earnings = (balance_micros(user, kind) for kind in kinds)
    return credits_, escrow, earnings


def test_a_hold_sets_credits_aside(alice: User) -> None:
    hold = holds.place(alice, 300, "r1")
    assert hold.state == Hold.State.OPEN
    assert balances(alice) == (700, 300, 0)


def test_settling_pays_owners_and_site_and_returns_the_rest(alice: User, bob: User, charlie: User) -> None:
    hold = holds.place(alice, 300, "r1")
    settled = holds.settle(hold.pk, 200, [Share(bob.pk, 120), Share(charlie.pk, 60)])
    assert (settled.state, settled.charge_micros) == (Hold.State.SETTLED, 200)
    assert settled.closed_at is not None
    assert balances(alice) == (800, 0, 0)
    assert balances(bob)[2] == 120
    assert balances(charlie)[2] == 60
    assert account_of(None, Account.Kind.SITE).balance_micros == 20


def test_settling_for_nothing_returns_everything(alice: User) -> None:
    holds.settle(holds.place(alice, 300, "r1").pk, 0, [])
    assert balances(alice) == (1000, 0, 0)


def test_settling_for_everything_returns_nothing(alice: User, bob: User) -> None:
    holds.settle(holds.place(alice, 300, "r1").pk, 300, [Share(bob.pk, 300)])
    assert balances(alice) == (700, 0, 0)
    assert Transfer.objects.filter(kind=Transfer.Kind.RETURN).count() == 0


def test_ones_own_node_earns_too(alice: User) -> None:
    holds.settle(holds.place(alice, 300, "r1").pk, 100, [Share(alice.pk, 100)])
    assert balances(alice) == (900, 0, 100)


def test_releasing_returns_everything(alice: User) -> None:
    released = holds.release(holds.place(alice, 300, "r1").pk, "no route")
    assert (released.state, released.reason) == (Hold.State.RELEASED, "no route")
    assert balances(alice) == (1000, 0, 0)


def test_a_free_request_books_nothing(alice: User) -> None:
    hold = holds.place(alice, 0, "r1")
    holds.settle(hold.pk, 0, [])
    assert Transfer.objects.filter(hold=hold).count() == 0


def test_more_than_there_is_cannot_be_held(alice: User, bob: User) -> None:
    with refused("insufficient_credit"):
        holds.place(alice, GRANTED + 1, "r1")
    with refused("insufficient_credit"):
        holds.place(bob, 1, "r1")
    assert balances(alice) == (1000, 0, 0)
    assert not Hold.objects.exists()


def test_the_same_placement_twice_is_one_hold(alice: User) -> None:
    assert holds.place(alice, 300, "r1") == holds.place(alice, 300, "r1")
    assert balances(alice) == (700, 300, 0)


def test_a_key_is_the_users_own(alice: User, bob: User) -> None:
    grant(bob, 10, idempotency_key="bob")
    holds.place(alice, 300, "r1")
    with refused("idempotency_conflict"):
        holds.place(alice, 299, "r1")
    assert holds.place(bob, 10, "r1").user == bob


def test_settling_twice_pays_once(alice: User, bob: User) -> None:
    hold = holds.place(alice, 300, "r1")
    for _ in range(2):
        holds.settle(hold.pk, 200, [Share(bob.pk, 200)])
    assert balances(bob)[2] == 200


def test_a_closed_hold_stays_as_it_was_closed(alice: User, bob: User) -> None:
    settled, released = holds.place(alice, 300, "r1"), holds.place(alice, 300, "r2")
    holds.settle(settled.pk, 200, [])
    holds.release(released.pk)
    with refused("hold_closed"):
        holds.settle(settled.pk, 100, [])
    with refused("hold_closed"):
        holds.settle(released.pk, 0, [])
    assert holds.release(settled.pk).state == Hold.State.SETTLED
    assert holds.release(released.pk).state == Hold.State.RELEASED
    assert balances(alice) == (800, 0, 0)


@pytest.mark.parametrize(("charge", "share"), [(301, 0), (-1, 0), (100, 101), (100, -1), (100, 0)], ids=str)
def test_charges_that_do_not_fit_are_refused(alice: User, bob: User, charge: int, share: int) -> None:
    hold = holds.place(alice, 300, "r1")
    shares = [Share(bob.pk, share)] if share or charge == 100 else []
    with refused("bad_amount"):
        holds.settle(hold.pk, charge, shares)
    assert balances(alice) == (700, 300, 0)


@pytest.mark.parametrize(("amount", "key"), [(-1, "r1"), (1, ""), (1, "k" * 129)])
def test_impossible_placements_are_refused(alice: User, amount: int, key: str) -> None:
    with refused("bad_amount"):
        holds.place(alice, amount, key)


@pytest.mark.django_db
def test_an_unknown_hold_is_refused() -> None:
    with refused("unknown_hold"):
        holds.release(uuid.uuid4())
    with refused("unknown_hold"):
        holds.settle(uuid.uuid4(), 0, [])


def test_orphans_are_released_and_living_holds_are_not(alice: User) -> None:
    orphan, living = holds.place(alice, 300, "r1"), holds.place(alice, 100, "r2")
    Hold.objects.filter(pk=orphan.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert holds.sweep() == 1
    assert holds.sweep() == 0
    orphan.refresh_from_db()
    living.refresh_from_db()
    assert (orphan.state, living.state) == (Hold.State.RELEASED, Hold.State.OPEN)
    assert balances(alice) == (900, 100, 0)


def test_a_process_renews_its_own_holds_but_not_for_ever(alice: User) -> None:
    past = timezone.now() - timedelta(seconds=1)
    mine, others, old = (holds.place(alice, 10, key) for key in ("mine", "others", "old"))
    Hold.objects.update(lease_expires_at=past)
    Hold.objects.filter(pk=others.pk).update(lease_owner="another process")
    Hold.objects.filter(pk=old.pk).update(created_at=timezone.now() - holds.HOLD_MAX)
    assert holds.renew_leases() == 1
    assert holds.sweep() == 2
    mine.refresh_from_db()
    assert mine.state == Hold.State.OPEN


def test_a_site_that_starts_releases_what_earlier_runs_left(alice: User) -> None:
    left, mine, settled = (holds.place(alice, 100, key) for key in ("left", "mine", "settled"))
    holds.settle(settled.pk, 40, [])
    Hold.objects.exclude(pk=mine.pk).update(lease_owner="an earlier run")
    assert holds.release_left() == 1
    assert holds.release_left() == 0
    states = {one.pk: one.state for one in Hold.objects.all()}
    assert states[left.pk] == Hold.State.RELEASED
    assert states[mine.pk] == Hold.State.OPEN
    assert states[settled.pk] == Hold.State.SETTLED
    assert balances(alice) == (860, 100, 0)

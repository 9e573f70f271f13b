"""Many at once on one ledger: nobody is lost, nothing is booked twice, no balance goes below zero."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from meshnet.errors import LedgerError
from tests.site.people import make_user
from tracker_site import database
from tracker_site.billing import holds
from tracker_site.billing.audit import audit_ledger
from tracker_site.billing.ledger import balance_micros, grant
from tracker_site.billing.models import Account, Hold, Transfer
from tracker_site.billing.pricing import Share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracker_site.accounts.models import User

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 12


@pytest.fixture
def alice(transactional_db: None) -> User:
    alice = make_user("alice")
    grant(alice, 1000, idempotency_key="alice")
    return alice


def at_once(calls: Sequence[Callable[[], object]]) -> list[str]:
    """Run the calls in threads of their own, from one starting shot; "ok" or the ledger's code for each."""
    shot = threading.Barrier(len(calls), timeout=30)

    def run(call: Callable[[], object]) -> str:
        shot.wait()
        try:
            call()
        except LedgerError as error:
            return error.code
        else:
            return "ok"
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return sorted(pool.map(run, calls, timeout=60))


def test_a_balance_is_not_held_twice(alice: User) -> None:
    outcomes = at_once([lambda n=n: holds.place(alice, 300, f"r{n}") for n in range(THREADS)])
    assert outcomes == ["insufficient_credit"] * (THREADS - 3) + ["ok"] * 3
    assert balance_micros(alice) == 100
    assert audit_ledger().problems == ()


def test_one_request_places_one_hold(alice: User) -> None:
    assert at_once([lambda: holds.place(alice, 300, "r1")] * THREADS) == ["ok"] * THREADS
    assert Hold.objects.count() == 1
    assert balance_micros(alice) == 700


def test_one_hold_is_closed_once(alice: User) -> None:
    bob = make_user("bob")
    hold = holds.place(alice, 300, "r1")
    settle = [lambda: holds.settle(hold.pk, 200, [Share(bob.pk, 200)])] * 6
    release = [lambda: holds.release(hold.pk)] * 6
    outcomes = at_once([*settle, *release])
    hold.refresh_from_db()
    if hold.state == Hold.State.SETTLED:
        assert outcomes == ["ok"] * 12
        assert (balance_micros(alice), balance_micros(bob, Account.Kind.EARNINGS)) == (800, 200)
    else:
        assert outcomes == ["hold_closed"] * 6 + ["ok"] * 6
        assert (balance_micros(alice), balance_micros(bob, Account.Kind.EARNINGS)) == (1000, 0)
    assert audit_ledger().problems == ()


def test_one_grant_is_booked_once(alice: User) -> None:
    assert at_once([lambda: grant(alice, 5, idempotency_key="again")] * THREADS) == ["ok"] * THREADS
    assert balance_micros(alice) == 1005


async def test_two_hundred_requests_at_once(alice: User) -> None:
    owners = [await database.write(make_user, f"owner {number}") for number in range(3)]

    async def request(number: int) -> None:
        hold = await database.write(holds.place, alice, 5, f"r{number}")
        if number % 4 == 0:
            await database.write(holds.release, hold.pk, "no route")
        else:
            await database.write(holds.settle, hold.pk, 4, [Share(owner.pk, 1) for owner in owners])

    await asyncio.gather(*(request(number) for number in range(200)))
    found = await database.write(audit_ledger)
    assert (found.problems, found.open_holds, found.balance_sum_micros) == ((), 0, 0)
    assert found.transfers == 1 + 50 * 2 + 150 * 6
    assert await database.read(balance_micros, alice) == 1000 - 150 * 4
    assert await database.read(lambda: Transfer.objects.filter(kind=Transfer.Kind.EARNING).count()) == 450

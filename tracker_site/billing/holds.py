"""Holds: credits set aside before a request runs, settled or released once when it ends.

Invariants: a hold is closed once, whoever comes first; settled or released, all of its amount has left escrow.
Placing, settling and releasing again with the same values change nothing and give the same result. A hold of nothing
is legal and books nothing.

Orphans: a process renews the leases of its own holds (`renew_leases`); `sweep` releases in full what nobody renews,
and anything older than HOLD_MAX, and a site of one process at its start what earlier runs left (`release_left`),
because what such a request delivered is known to nobody who could prove it: the user pays nothing, the nodes earn
nothing.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from meshnet.errors import LedgerError
from tracker_site.billing.ledger import Entry, account_of, lock_accounts, post
from tracker_site.billing.models import KEY_CHARACTERS, Account, Hold, Transfer

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from django.db.models import QuerySet

    from tracker_site.accounts.models import User
    from tracker_site.billing.pricing import Share

HOLD_LEASE = timedelta(seconds=60)
HOLD_MAX = timedelta(hours=1)
# Names this process among those that share a database.
LEASE_OWNER = secrets.token_hex(16)


@transaction.atomic
def place(user: User, amount_micros: int, idempotency_key: str) -> Hold:
    """Set credits aside.

    Args:
        user: who pays.
        amount_micros: the most that the request can cost; 0 for free models.
        idempotency_key: names the request among the user's; again with the same amount it gives the same hold.

    Raises:
        LedgerError: insufficient_credit; bad_amount; idempotency_conflict.
    """
    if amount_micros < 0 or not 0 < len(idempotency_key) <= KEY_CHARACTERS:
        raise LedgerError("bad_amount", "Impossible hold", "a hold needs an amount of 0 or more, and a key")
    spendable, escrow = account_of(user.pk, Account.Kind.CREDITS), account_of(user.pk, Account.Kind.ESCROW)
    # The user's accounts stand for the user's holds: two placements with one key meet here.
    lock_accounts((spendable, escrow))
    earlier = Hold.objects.filter(user=user, idempotency_key=idempotency_key).first()
    if earlier is not None:
        return _same_hold(earlier, amount_micros)
    hold = Hold.objects.create(
        user=user,
        amount_micros=amount_micros,
        idempotency_key=idempotency_key,
        lease_owner=LEASE_OWNER,
        lease_expires_at=timezone.now() + HOLD_LEASE,
    )
    if amount_micros:
        post([Entry(spendable, escrow, amount_micros, Transfer.Kind.HOLD, f"hold:{hold.pk}", hold)])
    return hold


@transaction.atomic
def settle(hold_id: uuid.UUID, charge_micros: int, shares: Sequence[Share]) -> Hold:
    """Charge what was delivered, pay the owners, return the rest.

    Args:
        hold_id: an open hold.
        charge_micros: at most its amount.
        shares: what each owner earns; what is left of the charge is the site's.

    Raises:
        LedgerError: unknown_hold; bad_amount when charge or shares do not fit; hold_closed when closed otherwise.
    """
    hold = _lock(hold_id)
    if hold.state == Hold.State.SETTLED and hold.charge_micros == charge_micros:
        return hold
    if hold.state != Hold.State.OPEN:
        raise LedgerError(
            "hold_closed", "Hold closed", f"the hold was {hold.state} before ({hold.reason or 'no reason'})"
        )
    shared = sum(share.micros for share in shares)
    if any(share.micros <= 0 for share in shares) or not 0 <= shared <= charge_micros <= hold.amount_micros:
        raise LedgerError("bad_amount", "Impossible charge", "shares, charge and hold do not fit into each other")
    _close(hold, Hold.State.SETTLED, charge_micros, shares)
    return hold


@transaction.atomic
def release(hold_id: uuid.UUID, reason: str = "") -> Hold:
    """Return everything; does nothing when the hold was closed before, settled or not.

    Raises:
        LedgerError: unknown_hold.
    """
    hold = _lock(hold_id)
    if hold.state == Hold.State.OPEN:
        hold.reason = reason[:200]
        _close(hold, Hold.State.RELEASED, 0, ())
    return hold


def renew_leases() -> int:
    """Say that this process lives, for all its open holds; returns how many it has."""
    now = timezone.now()
    mine = Hold.objects.filter(state=Hold.State.OPEN, lease_owner=LEASE_OWNER, created_at__gt=now - HOLD_MAX)
    return mine.update(lease_expires_at=now + HOLD_LEASE)


def sweep() -> int:
    """Release holds whose lease ran out; returns how many."""
    overdue = Hold.objects.filter(state=Hold.State.OPEN, lease_expires_at__lte=timezone.now())
    return _release_all(overdue, "nobody renewed its lease")


def release_left() -> int:
    """At the start of a site of one process: release what earlier runs left open; returns how many."""
    left = Hold.objects.filter(state=Hold.State.OPEN).exclude(lease_owner=LEASE_OWNER)
    return _release_all(left, "the site was restarted")


def _release_all(orphans: QuerySet[Hold], reason: str) -> int:
    hold_ids = list(orphans.values_list("pk", flat=True))
    for hold_id in hold_ids:
        release(hold_id, reason)
    return len(hold_ids)


def _same_hold(earlier: Hold, amount_micros: int) -> Hold:
    if earlier.amount_micros != amount_micros:
        raise LedgerError("idempotency_conflict", "Key used before", "this key placed another hold before")
    return earlier


def _lock(hold_id: uuid.UUID) -> Hold:
    hold = Hold.objects.select_for_update().filter(pk=hold_id).first()
    if hold is None:
        raise LedgerError("unknown_hold", "No such hold", "there is no hold with this id")
    return hold


def _close(hold: Hold, state: Hold.State, charge_micros: int, shares: Sequence[Share]) -> None:
    hold.state, hold.charge_micros, hold.closed_at = state, charge_micros, timezone.now()
    hold.save(update_fields=["state", "charge_micros", "closed_at", "reason"])
    post(_closing_entries(hold, charge_micros, shares))


def _closing_entries(hold: Hold, charge_micros: int, shares: Sequence[Share]) -> list[Entry]:
    escrow = account_of(hold.user_id, Account.Kind.ESCROW)
    entries = [
        Entry(
            debit=escrow,
            credit=account_of(share.owner_id, Account.Kind.EARNINGS),
            amount_micros=share.micros,
            kind=Transfer.Kind.EARNING,
            idempotency_key=f"earning:{hold.pk}:{number}",
            hold=hold,
        )
        for number, share in enumerate(shares)
    ]
    rest = [
        (Account.Kind.SITE, None, charge_micros - sum(share.micros for share in shares), Transfer.Kind.SITE_SHARE),
        (Account.Kind.CREDITS, hold.user_id, hold.amount_micros - charge_micros, Transfer.Kind.RETURN),
    ]
    for kind, user_id, amount, transfer_kind in rest:
        if amount:
            credit = account_of(user_id, kind)
            entries.append(Entry(escrow, credit, amount, transfer_kind, f"{transfer_kind.value}:{hold.pk}", hold))
    return entries

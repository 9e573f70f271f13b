"""Holds: credits set aside before a request runs, then settled or released once when it ends.

Invariants: a hold is closed once, by the first call that settles or releases it; afterwards all of its amount has left
escrow. If a call to place, settle or release is repeated with the same values, it changes nothing and returns the same
hold. A hold of 0 is legal and books nothing.

Orphans: a process renews the leases of its own holds (`renew_leases`) until they are older than HOLD_MAX. A hold whose
lease has run out is an orphan, and `sweep` releases it. If the site is a single process, it releases at its start the
holds that earlier runs left open (`release_left`). An orphan is released in full, because nobody can prove how many
tokens its request delivered: the user pays nothing and the nodes earn nothing.
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
# Identifies this process among the processes that share a database.
LEASE_OWNER = secrets.token_hex(16)


@transaction.atomic
def place(user: User, amount_micros: int, idempotency_key: str) -> Hold:
    """Set credits of a user aside for one request: move them to the user's escrow account, and return the hold.

    Args:
        user: the user who pays.
        amount_micros: the most that the request can cost; 0 if the model is free.
        idempotency_key: identifies the request among the requests of this user. If it is repeated with the same
            amount, the earlier hold is returned.

    Raises:
        LedgerError: `insufficient_credit`; `bad_amount` if the amount or the key is out of range;
            `idempotency_conflict` if the key placed a hold of another amount.
    """
    if amount_micros < 0 or not 0 < len(idempotency_key) <= KEY_CHARACTERS:
        message = f"a hold needs an amount of 0 or more and a key of 1 to {KEY_CHARACTERS} characters"
        raise LedgerError("bad_amount", "Impossible hold", message)
    spendable, escrow = account_of(user.pk, Account.Kind.CREDITS), account_of(user.pk, Account.Kind.ESCROW)
    # The accounts' locks also guard the user's holds: of two calls with one key, the second waits here.
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
    """Charge a hold, pay the owners of the nodes, and return the rest to the user.

    Args:
        hold_id: an open hold.
        charge_micros: at most the amount of the hold.
        shares: how much of the charge each owner earns. The site gets the rest of the charge.

    Raises:
        LedgerError: `unknown_hold`; `bad_amount` if a share is not above zero, or the shares exceed the charge, or the
            charge exceeds the hold; `hold_closed` if the hold was released or settled with another charge.
    """
    hold = _lock(hold_id)
    if hold.state == Hold.State.SETTLED and hold.charge_micros == charge_micros:
        return hold
    if hold.state != Hold.State.OPEN:
        raise LedgerError(
            "hold_closed", "Hold closed", f"the hold is already {hold.state} ({hold.reason or 'no reason given'})"
        )
    shared = sum(share.micros for share in shares)
    if any(share.micros <= 0 for share in shares) or not 0 <= shared <= charge_micros <= hold.amount_micros:
        raise LedgerError(
            "bad_amount", "Impossible charge", "the shares exceed the charge, or the charge exceeds the hold"
        )
    _close(hold, Hold.State.SETTLED, charge_micros, shares)
    return hold


@transaction.atomic
def release(hold_id: uuid.UUID, reason: str = "") -> Hold:
    """Return the whole amount to the user. If the hold is already settled or released, nothing changes.

    Raises:
        LedgerError: `unknown_hold`.
    """
    hold = _lock(hold_id)
    if hold.state == Hold.State.OPEN:
        hold.reason = reason[:200]
        _close(hold, Hold.State.RELEASED, 0, ())
    return hold


def renew_leases() -> int:
    """Extend the leases of this process's open holds that are younger than HOLD_MAX; return their number."""
    now = timezone.now()
    mine = Hold.objects.filter(state=Hold.State.OPEN, lease_owner=LEASE_OWNER, created_at__gt=now - HOLD_MAX)
    return mine.update(lease_expires_at=now + HOLD_LEASE)


def sweep() -> int:
    """Release the holds whose lease has run out; return their number."""
    overdue = Hold.objects.filter(state=Hold.State.OPEN, lease_expires_at__lte=timezone.now())
    return _release_all(overdue, "its process stopped renewing its lease")


def release_left() -> int:
    """Release the holds that earlier runs left open; return their number.

    Call it only at the start of a site that is a single process: it releases the holds of all other processes.
    """
    left = Hold.objects.filter(state=Hold.State.OPEN).exclude(lease_owner=LEASE_OWNER)
    return _release_all(left, "the site was restarted")


def _release_all(orphans: QuerySet[Hold], reason: str) -> int:
    hold_ids = list(orphans.values_list("pk", flat=True))
    for hold_id in hold_ids:
        release(hold_id, reason)
    return len(hold_ids)


def _same_hold(earlier: Hold, amount_micros: int) -> Hold:
    if earlier.amount_micros != amount_micros:
        raise LedgerError("idempotency_conflict", "Key used before", "this key already placed a hold of another amount")
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

"""Bookkeeping: every movement of micro-credits passes through `post`.

Invariants: the entries of one call are booked together or not at all. No account falls below zero except the mint, from
which new credits come. Each idempotency key belongs to one transfer. The lock policy is in `models`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import connection, transaction
from django.db.models import F

from meshnet.errors import LedgerError
from tracker_site.billing.models import Account, Transfer
from tracker_site.nodes.models import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracker_site.accounts.models import User
    from tracker_site.billing.models import Hold

# Far above any real balance, and small enough that sums of balances fit in 64 bits.
MAX_AMOUNT_MICROS = 10**15


@dataclass(frozen=True)
class Entry:
    """A movement of micro-credits from account `debit` to account `credit`, which `post` is to book."""

    debit: Account
    credit: Account
    amount_micros: int
    kind: Transfer.Kind
    idempotency_key: str
    hold: Hold | None = None
    note: str = ""


def account_of(user_id: int | None, kind: Account.Kind) -> Account:
    """Return the account of a user, or of the site if `user_id` is None; create it on first use."""
    owner = {"user": None} if user_id is None else {"user_id": user_id}
    account, _ = Account.objects.get_or_create(**owner, kind=kind)
    return account


def balance_micros(user: User, kind: Account.Kind = Account.Kind.CREDITS) -> int:
    """Return the balance of a user's account; 0 if the account does not exist yet."""
    balance = Account.objects.filter(user=user, kind=kind).values_list("balance_micros", flat=True).first()
    return balance or 0


def earned_micros(node_id: str) -> int:
    """Return the micro-credits that a node's owner has earned with all of their nodes and not yet turned into credits.

    0 if there are none, or the node does not exist.
    """
    owner = Node.objects.filter(pk=node_id).values("owner")
    earnings = Account.objects.filter(user__in=owner, kind=Account.Kind.EARNINGS)
    return earnings.values_list("balance_micros", flat=True).first() or 0


def post(entries: Sequence[Entry]) -> list[Transfer]:
    """Book entries together; the caller must have begun a transaction.

    Raises:
        LedgerError: `bad_amount` or `insufficient_credit`; the transaction must then be rolled back.
        RuntimeError: there is no transaction.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("post needs a transaction around it")
    for entry in entries:
        if not 0 < entry.amount_micros <= MAX_AMOUNT_MICROS:
            raise LedgerError(
                "bad_amount", "Impossible amount", f"{entry.amount_micros} micro-credits cannot be booked"
            )
    lock_accounts(account for entry in entries for account in (entry.debit, entry.credit))
    return [_book(entry) for entry in entries]


def lock_accounts(accounts: Iterable[Account]) -> None:
    """Lock accounts in the order of their primary keys, so that two callers never deadlock."""
    if not connection.features.has_select_for_update:
        return  # SQLite: the transaction has held the database's write lock since it began
    keys = {account.pk for account in accounts}
    list(Account.objects.select_for_update().filter(pk__in=keys).order_by("pk").values_list("pk"))


@transaction.atomic
def grant(user: User, amount_micros: int, *, idempotency_key: str, note: str = "") -> Transfer:
    """Give a user new credits. If the same grant is repeated with the same key, it gives nothing more.

    Raises:
        LedgerError: `bad_amount`; `idempotency_conflict` if the key was used for another grant.
    """
    mint, spendable = account_of(None, Account.Kind.MINT), account_of(user.pk, Account.Kind.CREDITS)
    entry = Entry(mint, spendable, amount_micros, Transfer.Kind.GRANT, f"grant:{idempotency_key}", note=note)
    return _post_once(entry)


@transaction.atomic
def convert_earnings(user: User, amount_micros: int, *, idempotency_key: str) -> Transfer:
    """Turn earnings of a user's nodes into credits, which the user can spend.

    Raises:
        LedgerError: `bad_amount`; `insufficient_credit` if the earnings are smaller; `idempotency_conflict` if the key
            was used for another amount.
    """
    earnings, spendable = account_of(user.pk, Account.Kind.EARNINGS), account_of(user.pk, Account.Kind.CREDITS)
    key = f"convert:{user.pk}:{idempotency_key}"
    return _post_once(Entry(earnings, spendable, amount_micros, Transfer.Kind.CONVERT, key))


def _post_once(entry: Entry) -> Transfer:
    lock_accounts((entry.debit, entry.credit))
    earlier = Transfer.objects.filter(idempotency_key=entry.idempotency_key).first()
    if earlier is None:
        return post([entry])[0]
    if (earlier.credit_account_id, earlier.amount_micros) != (entry.credit.pk, entry.amount_micros):
        raise LedgerError(
            "idempotency_conflict", "Key used before", "this key already booked another amount or account"
        )
    return earlier


def _book(entry: Entry) -> Transfer:
    covered = Account.objects.filter(pk=entry.debit.pk)
    if entry.debit.kind != Account.Kind.MINT:
        covered = covered.filter(balance_micros__gte=entry.amount_micros)
    if not covered.update(balance_micros=F("balance_micros") - entry.amount_micros):
        message = f"{entry.amount_micros} micro-credits are needed, and the account '{entry.debit}' has fewer"
        raise LedgerError("insufficient_credit", "Not enough credits", message)
    Account.objects.filter(pk=entry.credit.pk).update(balance_micros=F("balance_micros") + entry.amount_micros)
    return Transfer.objects.create(
        debit_account=entry.debit,
        credit_account=entry.credit,
        amount_micros=entry.amount_micros,
        kind=entry.kind,
        hold=entry.hold,
        idempotency_key=entry.idempotency_key,
        note=entry.note[:200],
    )

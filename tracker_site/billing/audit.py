"""Checks that the ledger is what it claims to be.

Invariant: reads only, in one consistent snapshot; compares the kept balances with the transfers themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Sum

from tracker_site.billing.models import Account, Hold, Transfer


@dataclass(frozen=True)
class LedgerAudit:
    """What was found; the ledger is sound when `problems` is empty."""

    accounts: int
    transfers: int
    open_holds: int
    balance_sum_micros: int
    problems: tuple[str, ...]


@transaction.atomic(durable=True)
def audit_ledger() -> LedgerAudit:
    """Compare every account's balance with its transfers, and escrow with the open holds."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    credited, debited = _sums("credit_account"), _sums("debit_account")
    accounts = list(Account.objects.all())
    problems = []
    for account in accounts:
        booked = credited.get(account.pk, 0) - debited.get(account.pk, 0)
        if account.balance_micros != booked:
            problems.append(f"account {account.pk}: balance {account.balance_micros}, transfers say {booked}")
    total = sum(account.balance_micros for account in accounts)
    if total:
        problems.append(f"balances sum to {total}, not to 0")
    escrow = sum(account.balance_micros for account in accounts if account.kind == Account.Kind.ESCROW)
    held = Hold.objects.filter(state=Hold.State.OPEN).aggregate(held=Sum("amount_micros"))["held"] or 0
    if escrow != held:
        problems.append(f"escrow holds {escrow}, open holds say {held}")
    open_holds = Hold.objects.filter(state=Hold.State.OPEN).count()
    return LedgerAudit(len(accounts), Transfer.objects.count(), open_holds, total, tuple(problems))


def _sums(side: str) -> dict[int, int]:
    rows = Transfer.objects.order_by().values_list(side).annotate(moved=Sum("amount_micros"))
    return dict(rows)

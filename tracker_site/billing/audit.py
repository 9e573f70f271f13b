"""Checks that the balances agree with the transfers.

Invariant: the audit only reads, in one consistent snapshot of the database.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Sum

from tracker_site.billing.models import Account, Hold, Transfer


@dataclass(frozen=True)
class LedgerAudit:
    """The result of an audit. If `problems` is empty, the ledger is sound."""

    accounts: int
    transfers: int
    open_holds: int
    balance_sum_micros: int
    problems: tuple[str, ...]


@transaction.atomic(durable=True)
def audit_ledger() -> LedgerAudit:
    """Audit the ledger and return every problem found.

    Each balance must equal the sum of its account's transfers, all balances must sum to zero, and the escrow accounts
    must hold as much as the open holds.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    credited, debited = _sums("credit_account"), _sums("debit_account")
    accounts = list(Account.objects.all())
    problems = []
    for account in accounts:
        booked = credited.get(account.pk, 0) - debited.get(account.pk, 0)
        if account.balance_micros != booked:
            problems.append(
                f"account {account.pk} has a balance of {account.balance_micros}, and its transfers sum to {booked}"
            )
    total = sum(account.balance_micros for account in accounts)
    if total:
        problems.append(f"all balances sum to {total}, not to 0")
    escrow = sum(account.balance_micros for account in accounts if account.kind == Account.Kind.ESCROW)
    held = Hold.objects.filter(state=Hold.State.OPEN).aggregate(held=Sum("amount_micros"))["held"] or 0
    if escrow != held:
        problems.append(f"the escrow accounts have {escrow}, and the open holds sum to {held}")
    open_holds = Hold.objects.filter(state=Hold.State.OPEN).count()
    return LedgerAudit(len(accounts), Transfer.objects.count(), open_holds, total, tuple(problems))


def _sums(side: str) -> dict[int, int]:
    rows = Transfer.objects.order_by().values_list(side).annotate(moved=Sum("amount_micros"))
    return dict(rows)

"""Accounts, transfers and holds.

Invariants: a transfer moves an amount above zero from its debit account to its credit account; database triggers refuse
to change or delete its row (see `immutability`). `Account.balance_micros` is the sum of the transfers to the account
less those from it, so that all balances sum to zero. Only the mint, from which new credits come, may be below zero. A
hold's amount lies on its user's escrow account until the hold is closed, which happens once.

Lock policy: only `ledger` and `holds` write, and each call is one transaction. Rows are always locked in this order:
the hold, then accounts by primary key. Balances change by conditional UPDATE (`balance >= amount`), never by a read
that a write follows. On SQLite a transaction takes the database's write lock when it begins, so no other lock is
needed.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

KEY_CHARACTERS = 128


class Account(models.Model):
    """A balance of micro-credits, of a user or of the site."""

    class Kind(models.TextChoices):
        """Purpose of an account.

        SITE and MINT exist once, and new credits come from MINT. A user has at most one account of each other kind.
        """

        CREDITS = "credits", "credits"
        ESCROW = "escrow", "held for running requests"
        EARNINGS = "earnings", "earned by nodes"
        SITE = "site", "the site"
        MINT = "mint", "mint"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="accounts"
    )
    balance_micros = models.BigIntegerField(verbose_name="balance in micro-credits", default=0, editable=False)

    class Meta:
        """An owner has at most one account of each kind; only the mint's balance may be below zero."""

        ordering: ClassVar[list[str]] = ["kind", "user_id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["kind", "user"], name="billing_account_once"),
            models.UniqueConstraint(fields=["kind"], condition=Q(user=None), name="billing_account_site_once"),
            models.CheckConstraint(
                condition=Q(kind__in=["site", "mint"], user=None)
                | Q(kind__in=["credits", "escrow", "earnings"], user__isnull=False),
                name="billing_account_owner",
            ),
            models.CheckConstraint(condition=Q(balance_micros__gte=0) | Q(kind="mint"), name="billing_account_covered"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} of {self.user}" if self.user_id else self.get_kind_display()


class Hold(models.Model):
    """Credits set aside for one request: the most that it can cost."""

    class State(models.TextChoices):
        """State of a hold, which leaves OPEN once and never returns to it."""

        OPEN = "open", "open"
        SETTLED = "settled", "settled"
        RELEASED = "released", "released"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="holds")
    amount_micros = models.BigIntegerField(
        verbose_name="amount in micro-credits",
    )
    charge_micros = models.BigIntegerField(verbose_name="charge in micro-credits", default=0)
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    idempotency_key = models.CharField(max_length=KEY_CHARACTERS)
    # The process that placed the hold, and the time until which that process counts as alive.
    lease_owner = models.CharField(max_length=64)
    lease_expires_at = models.DateTimeField()
    created_at = models.DateTimeField(default=timezone.now)
    closed_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=200, blank=True)

    class Meta:
        """A user's idempotency key identifies one hold; a charge never exceeds the held amount."""

        ordering: ClassVar[list[str]] = ["-created_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "idempotency_key"], name="billing_hold_once"),
            models.CheckConstraint(
                condition=Q(amount_micros__gte=0, charge_micros__gte=0, charge_micros__lte=F("amount_micros")),
                name="billing_hold_covered",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["lease_expires_at"], condition=Q(state="open"), name="billing_hold_overdue"),
        ]

    def __str__(self) -> str:
        return f"{self.state} hold {self.pk}"


class Transfer(models.Model):
    """One movement of micro-credits between two accounts; it is never changed or deleted."""

    class Kind(models.TextChoices):
        """Reason for a transfer."""

        GRANT = "grant", "grant"
        HOLD = "hold", "set aside"
        EARNING = "earning", "earned by a node"
        SITE_SHARE = "site_share", "the site's share"
        RETURN = "return", "returned from a hold"
        CONVERT = "convert", "earnings to credits"

    debit_account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="debits")
    credit_account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="credits")
    amount_micros = models.BigIntegerField(
        verbose_name="amount in micro-credits",
    )
    kind = models.CharField(max_length=16, choices=Kind.choices)
    hold = models.ForeignKey(Hold, null=True, blank=True, on_delete=models.PROTECT, related_name="transfers")
    idempotency_key = models.CharField(max_length=KEY_CHARACTERS, unique=True)
    note = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        """The newest rows come first; amounts are above zero and move between two different accounts."""

        ordering: ClassVar[list[str]] = ["-pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=Q(amount_micros__gt=0), name="billing_transfer_amount"),
            models.CheckConstraint(condition=~Q(debit_account=F("credit_account")), name="billing_transfer_moves"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.amount_micros}"

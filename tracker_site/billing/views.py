"""The page on which users see their credits and turn earnings into credits.

Invariants: a user sees and moves only their own credits. Every form carries an idempotency key, so that a repeated
submission moves credits once.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from meshnet.errors import LedgerError
from tracker_site.accounts.models import User
from tracker_site.billing.forms import ConvertForm
from tracker_site.billing.ledger import balance_micros, convert_earnings
from tracker_site.billing.models import Account, Transfer
from tracker_site.billing.pricing import credits_text

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

SHOWN_TRANSFERS = 50


@require_GET
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    """Show the user's balances and their latest transfers."""
    user = _signed_in(request)
    mine = Q(debit_account__user=user) | Q(credit_account__user=user)
    transfers = Transfer.objects.filter(mine).select_related("debit_account", "credit_account")[:SHOWN_TRANSFERS]
    earnings = balance_micros(user, Account.Kind.EARNINGS)
    context = {
        "credits": credits_text(balance_micros(user)),
        "held": credits_text(balance_micros(user, Account.Kind.ESCROW)),
        "earnings": credits_text(earnings),
        "has_earnings": earnings > 0,
        "transfers": [(transfer, credits_text(transfer.amount_micros)) for transfer in transfers],
        "key": secrets.token_hex(16),
    }
    return render(request, "billing/overview.html", context)


@require_POST
@login_required
def convert(request: HttpRequest) -> HttpResponse:
    """Turn all or some of the user's earnings into credits."""
    user, form = _signed_in(request), ConvertForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Enter a number of credits above zero, with at most six decimals.")
        return redirect("billing:overview")
    try:
        convert_earnings(user, form.amount_micros(), idempotency_key=form.cleaned_data["key"])
    except LedgerError as error:
        messages.error(request, f"{error.title}. Nothing was moved.")
    else:
        messages.success(request, "The earnings are now credits that you can spend.")
    return redirect("billing:overview")


def _signed_in(request: HttpRequest) -> User:
    user = request.user
    if not isinstance(user, User):  # login_required guarantees it; this check is for the type checker
        raise TypeError("the view needs login_required")
    return user

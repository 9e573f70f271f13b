"""Forms that take an amount of credits."""

from __future__ import annotations

from decimal import Decimal

from django import forms

from meshnet.constants import MICROS_PER_CREDIT
from tracker_site.accounts.models import User

MAX_CREDITS = Decimal(1_000_000_000)
SMALLEST = Decimal(1) / MICROS_PER_CREDIT


class CreditsForm(forms.Form):
    """Base class of forms with an amount of credits: above zero, with at most six decimals."""

    credits = forms.DecimalField(min_value=SMALLEST, max_value=MAX_CREDITS, decimal_places=6)

    def amount_micros(self) -> int:
        """Return the amount in micro-credits; call it after `is_valid`."""
        amount: Decimal = self.cleaned_data["credits"]
        return int(amount * MICROS_PER_CREDIT)


class ConvertForm(CreditsForm):
    """The form that turns earnings into credits. `key` is its idempotency key: sent twice, it converts once."""

    key = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput)


class GrantForm(CreditsForm):
    """The form that gives a user new credits. `key` is its idempotency key: sent twice, it gives them once."""

    field_order = ("user", "credits", "note", "key")

    user = forms.ModelChoiceField(User.objects.filter(is_active=True))
    note = forms.CharField(max_length=200, required=False)
    key = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput)

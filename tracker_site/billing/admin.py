"""Admin pages of the ledger: read-only lists, a form that grants credits, and an audit.

Invariant: this module writes no balance and no transfer itself. It grants through `ledger.grant`, with the
idempotency key that the form carries.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from meshnet.errors import LedgerError
from tracker_site.billing.audit import audit_ledger
from tracker_site.billing.forms import GrantForm
from tracker_site.billing.ledger import grant
from tracker_site.billing.models import Account, Hold, Transfer
from tracker_site.billing.pricing import credits_text

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern


class ReadOnlyAdmin(admin.ModelAdmin):
    """Base class of admin lists whose rows can be viewed but not added, changed or deleted."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: only the ledger adds rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False: a row records a past event, which cannot change."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False: a row records a past event, which cannot change."""
        return False


@admin.register(Account)
class AccountAdmin(ReadOnlyAdmin):
    """The admin list of accounts with their balances; its further pages grant credits and audit the ledger."""

    change_list_template = "admin/billing/account/change_list.html"
    list_display = ("__str__", "kind", "credits")
    list_filter = ("kind",)
    list_select_related = ("user",)
    search_fields = ("user__username",)

    @admin.display(description="credits", ordering="balance_micros")
    def credits(self, account: Account) -> str:
        """Return the balance in credits."""
        return credits_text(account.balance_micros)

    def get_urls(self) -> list[URLPattern]:
        """Add the pages of the grant and the audit to Django's own."""
        own = [
            path("grant/", self.admin_site.admin_view(self.grant_credits), name="billing_account_grant"),
            path("audit/", self.admin_site.admin_view(self.audit), name="billing_account_audit"),
        ]
        return own + super().get_urls()

    def grant_credits(self, request: HttpRequest) -> HttpResponse:
        """Show the form of a grant; if it is submitted and valid, book the grant."""
        if not request.user.has_perm("billing.add_transfer"):
            raise PermissionDenied
        form = GrantForm(request.POST or None, initial={"key": secrets.token_hex(16), "user": request.GET.get("user")})
        if request.method == "POST" and form.is_valid() and self._grant(request, form):
            return HttpResponseRedirect(reverse("admin:billing_account_changelist"))
        context = {**self.admin_site.each_context(request), "title": "Grant credits", "form": form, "opts": self.opts}
        return TemplateResponse(request, "admin/billing/account/grant.html", context)

    def audit(self, request: HttpRequest) -> HttpResponse:
        """Check the ledger, and show the result as a message above the list of accounts."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = audit_ledger()
        counted = f"{found.accounts} accounts, {found.transfers} transfers, {found.open_holds} open holds"
        if found.problems:
            self.message_user(request, f"{counted}; " + "; ".join(found.problems[:10]), messages.ERROR)
        else:
            self.message_user(request, f"{counted}: the ledger sums to zero.", messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:billing_account_changelist"))

    def _grant(self, request: HttpRequest, form: GrantForm) -> bool:
        values = form.cleaned_data
        note = f"by {request.user.get_username()}: {values['note']}"
        try:
            transfer = grant(values["user"], form.amount_micros(), idempotency_key=values["key"], note=note)
        except LedgerError as error:
            form.add_error(None, error.message)
            return False
        self.log_addition(request, transfer, note)
        self.message_user(request, f"Granted {values['credits']} credits to {values['user']}.", messages.SUCCESS)
        return True


@admin.register(Transfer)
class TransferAdmin(ReadOnlyAdmin):
    """The admin list of transfers."""

    list_display = ("pk", "created_at", "kind", "credits", "debit_account", "credit_account", "note")
    list_filter = ("kind", "created_at")
    list_select_related = ("debit_account__user", "credit_account__user")
    search_fields = ("idempotency_key", "debit_account__user__username", "credit_account__user__username")
    date_hierarchy = "created_at"

    @admin.display(description="credits", ordering="amount_micros")
    def credits(self, transfer: Transfer) -> str:
        """Return the amount in credits."""
        return credits_text(transfer.amount_micros)


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    """The admin list of holds: the held amount, the charge, and for a released hold the reason of the release."""

    list_display = ("short_id", "user", "state", "amount", "charge", "created_at", "closed_at", "reason")
    list_filter = ("state", "created_at")
    list_select_related = ("user",)
    search_fields = ("id", "user__username", "idempotency_key")
    date_hierarchy = "created_at"

    @admin.display(description="id", ordering="id")
    def short_id(self, hold: Hold) -> str:
        """Return the first eight digits of the id; the search expects the whole id."""
        return str(hold.pk)[:8]

    @admin.display(description="credits held", ordering="amount_micros")
    def amount(self, hold: Hold) -> str:
        """Return the held credits: the most that the request could cost."""
        return credits_text(hold.amount_micros)

    @admin.display(description="credits charged", ordering="charge_micros")
    def charge(self, hold: Hold) -> str:
        """Return the charged credits; "" if the hold is still open."""
        return "" if hold.state == Hold.State.OPEN else credits_text(hold.charge_micros)

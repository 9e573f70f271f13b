"""Django configuration of billing."""

from __future__ import annotations

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """The app of the ledger, its accounts and holds."""

    name = "tracker_site.billing"
    label = "billing"
    verbose_name = "Billing"

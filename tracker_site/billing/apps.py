"""Django configuration of billing."""

from __future__ import annotations

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """The ledger."""

    name = "tracker_site.billing"
    label = "billing"
    verbose_name = "Billing"

    def ready(self) -> None:
        """Let the register of nodes tell volunteers what they have earned."""
        from tracker_site.billing.ledger import earned_micros  # noqa: PLC0415 - models exist once all are loaded
        from tracker_site.nodes.owner_earnings import owner_earnings  # noqa: PLC0415

        owner_earnings.use(earned_micros)

"""Django configuration of accounts."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users and their secrets."""

    name = "tracker_site.accounts"
    label = "accounts"
    verbose_name = "Accounts"

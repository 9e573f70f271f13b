"""Django configuration of accounts."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """The app of users, API keys and node tokens."""

    name = "tracker_site.accounts"
    label = "accounts"
    verbose_name = "Accounts"

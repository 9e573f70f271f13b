"""Django configuration of ops."""

from __future__ import annotations

from django.apps import AppConfig


class OpsConfig(AppConfig):
    """The app of health and metrics."""

    name = "tracker_site.ops"
    label = "ops"
    verbose_name = "Operations"

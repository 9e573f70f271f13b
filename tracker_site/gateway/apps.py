"""Django configuration of the gateway app."""

from __future__ import annotations

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    """The app of generations and their records."""

    name = "tracker_site.gateway"
    label = "gateway"
    verbose_name = "Generations"

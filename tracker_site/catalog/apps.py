"""Django configuration of catalog."""

from __future__ import annotations

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """The app of models and their prices."""

    name = "tracker_site.catalog"
    label = "catalog"
    verbose_name = "Catalog"

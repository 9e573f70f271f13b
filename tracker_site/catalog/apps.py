"""Django configuration of catalog."""

from __future__ import annotations

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """Models and prices."""

    name = "tracker_site.catalog"
    label = "catalog"
    verbose_name = "Catalog"

    def ready(self) -> None:
        """Let the register of nodes say whether a shard is of one of our models."""
        from tracker_site.catalog.models import Model  # noqa: PLC0415 - models exist once all applications are loaded
        from tracker_site.nodes.known_models import known_models  # noqa: PLC0415

        known_models.use(Model.known, Model.names_by_digest)

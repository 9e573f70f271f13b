"""Django configuration of nodes."""

from __future__ import annotations

from django.apps import AppConfig


class NodesConfig(AppConfig):
    """App of the nodes that are enrolled."""

    name = "tracker_site.nodes"
    label = "nodes"
    verbose_name = "Nodes"

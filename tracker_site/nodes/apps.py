"""Django configuration of nodes."""

from __future__ import annotations

from django.apps import AppConfig


class NodesConfig(AppConfig):
    """The app of enrolled nodes and their shards."""

    name = "tracker_site.nodes"
    label = "nodes"
    verbose_name = "Nodes"

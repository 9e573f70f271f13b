"""Django configuration of the control plane. It has no models, and is an app so that Django finds its `admin`."""

from __future__ import annotations

from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    """The app of the nodes' control connections and of the nodes' admin pages."""

    name = "tracker_site.control_plane"
    label = "control_plane"
    verbose_name = "Control plane"

"""Django configuration of the control plane, so that its `admin` is found; it has no models."""

from __future__ import annotations

from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    """The control connections of nodes."""

    name = "tracker_site.control_plane"
    label = "control_plane"
    verbose_name = "Control plane"

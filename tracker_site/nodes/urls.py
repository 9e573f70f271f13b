"""URLs of nodes; `/nodes/control` is a WebSocket and is routed in `config.asgi`."""

from __future__ import annotations

from django.urls import path

from tracker_site.nodes import views

app_name = "nodes"

urlpatterns = [path("enrol", views.enrol_node, name="enrol")]

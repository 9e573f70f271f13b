"""URLs of ops."""

from __future__ import annotations

from django.urls import path

from tracker_site.ops import views

app_name = "ops"

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("metrics.json", views.metrics, name="metrics"),
]

"""URLs of billing."""

from __future__ import annotations

from django.urls import path

from tracker_site.billing import views

app_name = "billing"

urlpatterns = [
    path("", views.overview, name="overview"),
    path("convert/", views.convert, name="convert"),
]

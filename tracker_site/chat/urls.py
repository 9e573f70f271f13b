"""URLs of the chat page, below `chat/`."""

from __future__ import annotations

from django.urls import path

from tracker_site.chat import views

app_name = "chat"

urlpatterns = [
    path("", views.page, name="page"),
    path("stream", views.stream, name="stream"),
]

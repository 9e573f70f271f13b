"""URLs of the OpenAI API, below `v1/`."""

from __future__ import annotations

from django.urls import path, re_path

from tracker_site.openai_api import endpoint, views

app_name = "openai_api"

urlpatterns = [
    path("chat/completions", views.chat_completions, name="chat_completions"),
    path("completions", views.completions, name="completions"),
    path("models", views.models, name="models"),
    path("models/<path:name>", views.model, name="model"),
    path("generations/<str:generation_id>", views.generation, name="generation"),
    re_path(r"", endpoint.unknown_url),
]

"""Django configuration of the openai_api app."""

from __future__ import annotations

from django.apps import AppConfig


class OpenaiApiConfig(AppConfig):
    """The app of the OpenAI API; it has no tables."""

    name = "tracker_site.openai_api"
    label = "openai_api"
    verbose_name = "OpenAI API"

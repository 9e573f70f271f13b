"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ChatConfig(AppConfig):
    """The page; it has no tables of its own."""

    name = "tracker_site.chat"
    label = "chat"
    verbose_name = "Chat"

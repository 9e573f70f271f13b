"""Django configuration of chat."""

from __future__ import annotations

from django.apps import AppConfig


class ChatConfig(AppConfig):
    """The app of the chat page; it has no tables."""

    name = "tracker_site.chat"
    label = "chat"
    verbose_name = "Chat"

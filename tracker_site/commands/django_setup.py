"""Sets up Django for a command, and tells llama.cpp's Python bindings where their library is.

Invariant: no other module of the command line sets up Django. It happens after every environment variable that Django
reads is set.
"""

from __future__ import annotations

import os
from typing import Final

from meshnet.llama_library import name_library, usual_folders

SETTINGS: Final = "tracker_site.config.settings"


def set_up_django() -> None:
    """Load Django's settings and apps.

    Raises:
        ImproperlyConfigured: an environment variable has a wrong value.
    """
    import django  # noqa: PLC0415 - after the environment variables are set

    name_library(os.environ, usual_folders())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
    django.setup()

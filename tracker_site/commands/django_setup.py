"""Django set up for a command, and llama.cpp's library named for its bindings.

Invariant: Django is set up here and nowhere else on the command line, after everything it reads from the environment
is decided.
"""

from __future__ import annotations

import os
from typing import Final

from meshnet.llama_library import name_library, usual_folders

SETTINGS: Final = "tracker_site.config.settings"


def set_up_django() -> None:
    """Load the settings and the apps.

    Raises:
        ImproperlyConfigured: a variable of the environment is wrong.
    """
    import django  # noqa: PLC0415 - after the environment is decided

    name_library(os.environ, usual_folders())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
    django.setup()

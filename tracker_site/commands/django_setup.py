"""Django set up for a command.

Invariant: Django is set up here and nowhere else on the command line, after everything it reads from the environment
is decided.
"""

from __future__ import annotations

import os
from typing import Final

SETTINGS: Final = "tracker_site.config.settings"


def set_up_django() -> None:
    """Load the settings and the apps.

    Raises:
        ImproperlyConfigured: a variable of the environment is wrong.
    """
    import django  # noqa: PLC0415 - after the environment is decided

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
    django.setup()

"""Opens the admin's pages of a real site: `python admin_pages.py`, with the site's environment variables set.

Prints one JSON line: the number of rows of every model in the admin, by its label. A page that does not open ends the
program with an error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "shared")]


def main() -> None:
    import django
    from django.contrib import admin
    from django.test import Client
    from django.test.utils import setup_test_environment
    from django.urls import reverse

    django.setup()
    setup_test_environment()
    from tracker_site.accounts.models import User

    client = Client()
    client.force_login(User.objects.get(username="dora"))
    rows = {}
    for model in admin.site._registry:
        label = model._meta.label_lower
        view = f"admin:{label.replace('.', '_')}"
        first = model._default_manager.first()
        urls = [reverse(f"{view}_changelist"), *([reverse(f"{view}_change", args=[first.pk])] if first else [])]
        for url in urls:
            status = client.get(url).status_code
            if status != 200:
                raise RuntimeError(f"{url}: {status}")
        rows[label] = model._default_manager.count()
    print(json.dumps(rows))


if __name__ == "__main__":
    main()

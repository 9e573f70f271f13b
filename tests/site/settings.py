"""The site's settings for tests: a data directory that is thrown away, and a real SQLite file where threads meet.

If TEST_DATABASE_URL is set, the database is that PostgreSQL server's instead; tests/cluster runs the ledger's tests so.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_DATA = tempfile.mkdtemp(prefix="meshnet-site-tests-")
atexit.register(shutil.rmtree, _DATA, ignore_errors=True)
for _name in [name for name in os.environ if name.startswith("MESHNET_")]:
    del os.environ[_name]
os.environ["MESHNET_SITE_DATA"] = _DATA
# Commands look for the site's database before they load settings; the tests' own lies beside it.
(Path(_DATA) / "site.sqlite3").touch()

from tracker_site.config import environment  # noqa: E402
from tracker_site.config.settings import *  # noqa: E402, F403
from tracker_site.config.settings import DATABASES  # noqa: E402

if _url := os.environ.get("TEST_DATABASE_URL"):
    DATABASES["default"] = environment.postgresql_database("TEST_DATABASE_URL", _url)
else:
    DATABASES["default"]["ENGINE"] = "tests.site.sqlite_backend"
    DATABASES["default"]["TEST"] = {"NAME": Path(_DATA) / "test.sqlite3"}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

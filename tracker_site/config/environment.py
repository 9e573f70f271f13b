"""Strict reading of the site's environment variables; nothing else of the site looks at them.

Invariant: a value that is present but wrong stops the start with the variable's name; it never falls back silently.
Called by `settings`, and by `meshnet site serve` before there are settings: it decides where the relay is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

RELAY_URL: Final = "MESHNET_RELAY_URL"
SITE_DATA: Final = "MESHNET_SITE_DATA"
DATABASE_URL: Final = "MESHNET_DATABASE_URL"
# Of the data folder.
DATABASE_FILE: Final = "site.sqlite3"
SECRET_KEY_FILE: Final = "secret.key"  # noqa: S105 - a file's name
SITE_KEY_FILE: Final = "site.key"
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
REDIS_READ_TIMEOUT_S = 20
FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})


def text(name: str, default: str = "", environment: Mapping[str, str] = os.environ) -> str:
    """A value without surrounding blanks."""
    return environment.get(name, default).strip()


def set_relay_url(url: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Decide the relay's address, for settings that are read later and for children."""
    environment[RELAY_URL] = url


def flag(name: str, *, default: bool = False, environment: Mapping[str, str] = os.environ) -> bool:
    """A yes or no.

    Raises:
        ImproperlyConfigured: neither a word for yes nor one for no.
    """
    if name not in environment:
        return default
    word = environment[name].strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {word!r}")


def words(name: str, default: str = "", environment: Mapping[str, str] = os.environ) -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in text(name, default, environment).split(",") if word.strip()]


def named_data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of everything the site keeps, as it is named; it may not be there."""
    chosen = text(SITE_DATA, environment=environment)
    return Path(chosen) if chosen else Path.home() / ".local" / "share" / "meshnet" / "site"


def data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of everything the site keeps; created, readable by its owner only."""
    folder = named_data_directory(environment)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder.resolve()


def sqlite_database(path: Path) -> dict[str, object]:
    """SQLite that several threads may write: WAL, and every transaction takes the write lock when it begins.

    With the default, deferred transactions, two of them that read and then write fail with "database is locked" at
    once, whatever the timeout.
    """
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,  # seconds
            "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
        },
    }


def postgresql_database(name: str, url: str) -> dict[str, object]:
    """PostgreSQL through psycopg's pool; persistent connections of Django's own leak under ASGI.

    Raises:
        ImproperlyConfigured: not `postgresql://user:password@host:port/database`.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 5432
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is not a URL") from error
    if parts.scheme not in {"postgresql", "postgres"} or not parts.path.strip("/"):
        raise ImproperlyConfigured(f"{name} must look like postgresql://user:password@host:5432/database")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": port,
        "CONN_MAX_AGE": 0,
        "OPTIONS": {"pool": {"min_size": 2, "max_size": 16, "timeout": 10}},
    }


def redis_channel_layer(url: str) -> dict[str, object]:
    """The channel layer that several site processes share.

    Receiving blocks in Redis for 5 s at a time; the client's own limit on a read, 5 s by default, must be longer, or
    each quiet control connection ends with an error.
    """
    return {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [{"address": url, "socket_timeout": REDIS_READ_TIMEOUT_S}]},
    }

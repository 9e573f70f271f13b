"""Reads the site's environment variables strictly; no other module of the site reads them.

Invariant: if a variable is set to a wrong value, the start fails with the variable's name; a default never replaces a
wrong value. `settings` calls this module, and so does `meshnet site serve` before it loads the settings, to set the
relay's URL.
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
# Names of files in the data folder.
DATABASE_FILE: Final = "site.sqlite3"
SECRET_KEY_FILE: Final = "secret.key"  # noqa: S105 - a file's name
SITE_KEY_FILE: Final = "site.key"
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
REDIS_READ_TIMEOUT_S = 20
FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})


def text(name: str, default: str = "", environment: Mapping[str, str] = os.environ) -> str:
    """Return a variable's value without surrounding blanks; `default` if the variable is not set."""
    return environment.get(name, default).strip()


def set_relay_url(url: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the relay's URL for the settings, which are loaded later, and for child processes."""
    environment[RELAY_URL] = url


def flag(name: str, *, default: bool = False, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a variable is set to a word of TRUE_WORDS; `default` if the variable is not set.

    Raises:
        ImproperlyConfigured: the value is neither one of TRUE_WORDS nor one of FALSE_WORDS.
    """
    if name not in environment:
        return default
    word = environment[name].strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {word!r}")


def comma_separated(name: str, default: str = "", environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the items of a variable that holds a comma-separated list; empty items are left out."""
    return [item.strip() for item in text(name, default, environment).split(",") if item.strip()]


def named_data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the site's data folder; the folder may not exist."""
    chosen = text(SITE_DATA, environment=environment)
    return Path(chosen) if chosen else Path.home() / ".local" / "share" / "meshnet" / "site"


def data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the site's data folder; if it does not exist, create it so that only its owner can read it."""
    folder = named_data_directory(environment)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder.resolve()


def sqlite_database(path: Path) -> dict[str, object]:
    """Return Django's settings for an SQLite database to which several threads write.

    It uses a write-ahead log, and every transaction takes the write lock when it begins. With SQLite's default,
    deferred transactions, one of two transactions that read and then write fails with "database is locked" at once,
    whatever the timeout.
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
    """Return Django's settings for PostgreSQL through psycopg's pool.

    Django's own persistent connections would leak under ASGI.

    Args:
        name: the environment variable's name, for errors.
        url: the variable's value.

    Raises:
        ImproperlyConfigured: the value is not `postgresql://user:password@host:port/database`.
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
    """Return the settings of the channel layer that several site processes share.

    A receiver blocks in Redis for 5 s at a time. The client's read timeout, 5 s by default, must be longer;
    otherwise every control connection without messages would end with an error.
    """
    return {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [{"address": url, "socket_timeout": REDIS_READ_TIMEOUT_S}]},
    }

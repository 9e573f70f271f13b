"""SQLite as the site uses it, except that the flush between tests may empty the ledger, whose triggers refuse that."""

from __future__ import annotations

from typing import Any

from django.db.backends.sqlite3.base import DatabaseWrapper as SqliteWrapper
from django.db.backends.sqlite3.operations import DatabaseOperations as SqliteOperations

from tracker_site.billing.immutability import SQLITE_INSTALL, SQLITE_REMOVE


class DatabaseOperations(SqliteOperations):
    def sql_flush(self, *args: Any, **kwargs: Any) -> list[str]:
        return [*SQLITE_REMOVE, *super().sql_flush(*args, **kwargs), *SQLITE_INSTALL]


class DatabaseWrapper(SqliteWrapper):
    ops_class = DatabaseOperations

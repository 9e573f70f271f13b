"""Database triggers that refuse to change or delete a transfer.

Invariant: neither SQL nor the ORM can change or delete a transfer. SQLite drops a table's triggers if Django rebuilds
the table, so a migration that alters `billing_transfer` must run `install` again; a test checks that it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

SQLITE_INSTALL: Final = tuple(
    f"CREATE TRIGGER billing_transfer_no_{verb.lower()} BEFORE {verb} ON billing_transfer "
    "BEGIN SELECT RAISE(ABORT, 'transfers are immutable'); END"
    for verb in ("UPDATE", "DELETE")
)
SQLITE_REMOVE: Final = tuple(f"DROP TRIGGER IF EXISTS billing_transfer_no_{verb}" for verb in ("update", "delete"))

_POSTGRESQL_FUNCTION: Final = (
    "CREATE OR REPLACE FUNCTION billing_transfer_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "RAISE EXCEPTION 'transfers are immutable' USING ERRCODE = 'integrity_constraint_violation'; END $$"
)
_POSTGRESQL_TRIGGER: Final = (
    "CREATE TRIGGER billing_transfer_immutable BEFORE UPDATE OR DELETE ON billing_transfer "
    "FOR EACH ROW EXECUTE FUNCTION billing_transfer_refuse()"
)
POSTGRESQL_INSTALL: Final = (_POSTGRESQL_FUNCTION, _POSTGRESQL_TRIGGER)
POSTGRESQL_REMOVE: Final = (
    "DROP TRIGGER IF EXISTS billing_transfer_immutable ON billing_transfer",
    "DROP FUNCTION IF EXISTS billing_transfer_refuse()",
)

STATEMENTS: Final = {
    "sqlite": (SQLITE_INSTALL, SQLITE_REMOVE),
    "postgresql": (POSTGRESQL_INSTALL, POSTGRESQL_REMOVE),
}


def install(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:  # noqa: ARG001 - RunPython's signature
    """Create the triggers; if they exist, replace them."""
    creating, removing = STATEMENTS[schema_editor.connection.vendor]
    for statement in (*removing, *creating):
        schema_editor.execute(statement, params=None)


def remove(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:  # noqa: ARG001 - RunPython's signature
    """Drop the triggers, if they exist."""
    for statement in STATEMENTS[schema_editor.connection.vendor][1]:
        schema_editor.execute(statement, params=None)

"""Commands that read or change the database and then end. Set up Django before importing this module."""

from __future__ import annotations

import secrets
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from meshnet.constants import MICROS_PER_CREDIT
from meshnet.errors import MeshnetError
from tracker_site.accounts.models import ApiKey, BearerSecret, NodeToken, User
from tracker_site.billing.audit import audit_ledger
from tracker_site.billing.ledger import balance_micros, grant
from tracker_site.catalog.goldens import drop_golden, import_golden
from tracker_site.catalog.importing import import_model
from tracker_site.catalog.models import Model
from tracker_site.commands.output import Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping


class AdministrationError(MeshnetError):
    """A command was refused, for example because a user or model does not exist."""


def require_migrated() -> None:
    """Refuse to work on a database that lacks migrations.

    Raises:
        AdministrationError: `not_migrated`.
    """
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        message = f"run `meshnet site migrate` first; the database is {_database_name()}"
        raise AdministrationError("not_migrated", "The database is not up to date", message)


def _database_name() -> str:
    """Return the database's file, or its name and server; neither user nor password."""
    name, host = (str(connection.settings_dict[key]) for key in ("NAME", "HOST"))
    return f"{name} on {host}" if host else name


def _migrate(_: argparse.Namespace) -> Outcome:
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    _keep_database_private()
    call_command("migrate", interactive=False, verbosity=0)
    return Outcome(f"{len(pending)} migrations applied", {"applied": len(pending)})


def _keep_database_private() -> None:
    """Let only the owner read and write an SQLite file.

    SQLite made the file with the mode that the umask gives, and its folder may be open to others.
    """
    database = Path(str(connection.settings_dict["NAME"]))
    if connection.vendor == "sqlite" and database.is_file():
        database.chmod(0o600)  # SQLite gives the write-ahead log the same mode


def _import_model(chosen: argparse.Namespace) -> Outcome:
    imported = import_model(
        chosen.gguf,
        name=chosen.name,
        prompt_micros=chosen.prompt_price,
        completion_micros=chosen.completion_price,
    )
    model = imported.model
    fields = {
        "name": model.name,
        "created": imported.is_new,
        "artifact_digest": model.artifact_digest,
        "architecture": model.architecture,
        "n_layers": model.n_layers,
        "context_length": model.context_length,
        "vocab_size": model.vocab_size,
        "legal_cuts": model.legal_cuts,
        "golden_digest": model.golden_digest,
    }
    found = "is offered now" if imported.is_new else "is already in the catalogue and keeps its name and prices"
    lost = ""
    if imported.lost_golden:
        lost = "; its golden probe lacked rows and was dropped: make another with `meshnet probe`"
    return Outcome(f"{model.name} {found}: {model.architecture}, {model.n_layers} layers{lost}", fields)


def _import_golden(chosen: argparse.Namespace) -> Outcome:
    model = _model(chosen.model)
    golden = import_golden(model, chosen.golden)
    fields = {
        "name": model.name,
        "golden_digest": model.golden_digest,
        "rows": len(golden.token_ids),
        "cuts": len(golden.cuts),
        "backend": golden.backend,
    }
    text = f"{model.name}: nodes now prove their shards by {len(golden.token_ids)} rows at {len(golden.cuts)} cuts"
    return Outcome(text, fields)


def _drop_golden(chosen: argparse.Namespace) -> Outcome:
    model = _model(chosen.model)
    dropped = drop_golden(model)
    done = "its golden probe was dropped" if dropped else "it had no golden probe"
    return Outcome(f"{model.name}: {done}; nodes serve it untested", {"name": model.name, "dropped": dropped})


def _model(name: str) -> Model:
    model = Model.objects.filter(name=name).first()
    if model is None:
        raise AdministrationError("unknown_model", "No such model", f"no model is called {name}")
    return model


def _create_user(chosen: argparse.Namespace) -> Outcome:
    if User.objects.filter(username=chosen.username).exists():
        raise AdministrationError("user_exists", "User exists", f"there is already a user {chosen.username}")
    drawn = "" if chosen.password_stdin else secrets.token_urlsafe(16)
    password = drawn or sys.stdin.readline().rstrip("\r\n")
    user = User(username=chosen.username, is_staff=chosen.admin, is_superuser=chosen.admin)
    try:
        validate_password(password, user)
        user.set_password(password)
        user.full_clean()
    except ValidationError as error:
        raise AdministrationError("bad_user", "User not created", " ".join(error.messages)) from error
    user.save()
    fields: dict[str, object] = {"username": user.username, "admin": user.is_staff}
    if drawn:
        fields["password"] = drawn
    return Outcome(f"created {user.username}" + (f", password {drawn}" if drawn else ""), fields)


def _create_secret(model: type[BearerSecret], field: str) -> Callable[[argparse.Namespace], Outcome]:
    def create(chosen: argparse.Namespace) -> Outcome:
        user = _user(chosen.username)
        _, raw = model.issue(user, chosen.name)
        return Outcome(raw, {"username": user.username, field: raw})

    return create


def _grant(chosen: argparse.Namespace) -> Outcome:
    user, key = _user(chosen.username), chosen.key or secrets.token_hex(16)
    grant(user, chosen.credits, idempotency_key=key, note=chosen.note or "by the command line")
    balance = balance_micros(user)
    fields = {"username": user.username, "granted_micros": chosen.credits, "balance_micros": balance}
    return Outcome(f"{user.username} has {Decimal(balance) / MICROS_PER_CREDIT:,.6f} credits", fields)


def _audit(_: argparse.Namespace) -> Outcome:
    found = audit_ledger()
    fields = {
        "accounts": found.accounts,
        "transfers": found.transfers,
        "open_holds": found.open_holds,
        "balance_sum_micros": found.balance_sum_micros,
        "problems": list(found.problems),
    }
    counted = f"{found.accounts} accounts, {found.transfers} transfers, {found.open_holds} open holds"
    text = "; ".join(found.problems) or f"{counted}: the ledger sums to zero"
    return Outcome(text, fields, status=1 if found.problems else 0)


def _user(username: str) -> User:
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise AdministrationError("unknown_user", "No such user", f"there is no active user {username}")
    return user


COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], Outcome]]] = {
    "migrate": _migrate,
    "import-model": _import_model,
    "import-golden": _import_golden,
    "drop-golden": _drop_golden,
    "create-user": _create_user,
    "create-key": _create_secret(ApiKey, "key"),
    "create-node-token": _create_secret(NodeToken, "token"),
    "grant": _grant,
    "audit": _audit,
}

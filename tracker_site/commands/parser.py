"""The command line of `meshnet site`."""

from __future__ import annotations

import argparse
from decimal import Decimal, InvalidOperation
from pathlib import Path

from meshnet.constants import MICROS_PER_CREDIT, PORT_MAX

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8700
DEFAULT_RELAY_PORT = 8701


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of every subcommand and its arguments."""
    parser = argparse.ArgumentParser(prog="meshnet site", description="Run and administer a Meshnet site.")
    parser.set_defaults(is_json=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add(commands, "migrate", "create or update the database")
    _add_import_model(commands)
    _add_goldens(commands)
    _add_accounts(commands)
    _add(commands, "audit", "check that the ledger adds up")
    _add_processes(commands)
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument("--json", dest="is_json", action="store_true", help="print one JSON object for scripts")
    return command


def _add_import_model(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(commands, "import-model", "offer the model of a GGUF file")
    command.add_argument("gguf", type=Path, help="the GGUF file; if the model is split, its first part")
    command.add_argument("--name", default="", help="its name for clients; if left out, the name in the file")
    command.add_argument(
        "--prompt-price",
        type=credits_as_micros,
        default=0,
        metavar="CREDITS",
        help="price of a million prompt tokens; if left out, they are free",
    )
    command.add_argument(
        "--completion-price",
        type=credits_as_micros,
        default=0,
        metavar="CREDITS",
        help="price of a million generated tokens; if left out, they are free",
    )


def _add_goldens(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(commands, "import-golden", "let nodes test their shards of a model by a golden probe")
    command.add_argument("model", help="the model's name for clients")
    command.add_argument("golden", type=Path, help="the golden probe, a file that `meshnet probe` made")
    command = _add(commands, "drop-golden", "delete a model's golden probe, so that nodes serve the model untested")
    command.add_argument("model", help="the model's name for clients")


def _add_accounts(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    create_user = _add(
        commands, "create-user", "create a user; unless --password-stdin is given, draw a password and print it"
    )
    create_user.add_argument("username")
    create_user.add_argument("--admin", action="store_true", help="make the user an administrator")
    create_user.add_argument("--password-stdin", action="store_true", help="read the password from stdin's first line")
    for name, text in (
        ("create-key", "make an API key and print it"),
        ("create-node-token", "make a token with which a user's nodes enrol, and print it"),
    ):
        command = _add(commands, name, text)
        command.add_argument("username")
        command.add_argument("--name", default="command line", help="the name that the account page lists it by")
    grant = _add(commands, "grant", "give a user credits")
    grant.add_argument("username")
    grant.add_argument("credits", type=credits_as_micros, help="the number of credits, with at most six decimals")
    grant.add_argument("--key", default="", help="if a grant with this key was made before, give nothing more")
    grant.add_argument("--note", default="", help="text that the ledger keeps with the grant")


def _add_processes(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = _add(commands, "serve", "run the site and its relay")
    serve.add_argument("--host", default=DEFAULT_HOST, help="address to listen on (default: %(default)s)")
    serve.add_argument(
        "--port", type=port, default=DEFAULT_PORT, help="the site's port; 0 chooses a free one (default: %(default)s)"
    )
    serve.add_argument(
        "--relay-port",
        type=port,
        default=DEFAULT_RELAY_PORT,
        help="the relay's port; 0 chooses a free one (default: %(default)s)",
    )
    serve.add_argument(
        "--no-relay", action="store_true", help="start no relay; use the one at MESHNET_RELAY_URL, which runs elsewhere"
    )
    serve.add_argument("--parent-pid", type=int, default=0, help="end when the parent process with this id ends")
    relay = _add(commands, "relay", "run a relay alone")
    relay.add_argument("--host", default=DEFAULT_HOST, help="address to listen on (default: %(default)s)")
    relay.add_argument(
        "--port",
        type=port,
        default=DEFAULT_RELAY_PORT,
        help="the relay's port; 0 chooses a free one (default: %(default)s)",
    )


def port(text: str) -> int:
    """Parse a port number; 0 is allowed.

    Raises:
        argparse.ArgumentTypeError: the text is no port number.
    """
    if not text.isascii() or not text.isdigit() or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number from 0 to {PORT_MAX}")
    return int(text)


def credits_as_micros(text: str) -> int:
    """Parse credits with at most six decimals; return micro-credits.

    Raises:
        argparse.ArgumentTypeError: the text is no number, or is below zero, above 10^9 credits or finer than a
            micro-credit.
    """
    try:
        micros = Decimal(text) * MICROS_PER_CREDIT
        exact = micros == micros.to_integral_value() and 0 <= micros <= 10**15
    except InvalidOperation:
        exact = False
    if not exact:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of credits from 0 to 10^9 with at most six decimals")
    return int(micros)

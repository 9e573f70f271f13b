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
    """Every subcommand and its arguments."""
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
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, words: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=words, description=words)
    command.add_argument("--json", dest="is_json", action="store_true", help="print one JSON object")
    return command


def _add_import_model(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(commands, "import-model", "offer the model of a GGUF file")
    command.add_argument("gguf", type=Path, help="the file, or the first part of a split one")
    command.add_argument("--name", default="", help="what clients call it; otherwise its own name")
    command.add_argument(
        "--prompt-price", type=credits_as_micros, default=0, metavar="CREDITS", help="per million tokens"
    )
    command.add_argument(
        "--completion-price", type=credits_as_micros, default=0, metavar="CREDITS", help="per million tokens"
    )


def _add_goldens(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(commands, "import-golden", "let nodes prove their shards of a model by a file of `meshnet probe`")
    command.add_argument("model", help="what clients call it")
    command.add_argument("golden", type=Path, help="the golden probe")
    command = _add(commands, "drop-golden", "let nodes serve a model untested again")
    command.add_argument("model", help="what clients call it")


def _add_accounts(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    create_user = _add(
        commands, "create-user", "create a user; without --password-stdin a password is drawn and printed"
    )
    create_user.add_argument("username")
    create_user.add_argument("--admin", action="store_true", help="may use the admin")
    create_user.add_argument("--password-stdin", action="store_true", help="read the password from the first line")
    for name, words in (
        ("create-key", "make an API key"),
        ("create-node-token", "make a token for nodes to enrol with"),
    ):
        command = _add(commands, name, words)
        command.add_argument("username")
        command.add_argument("--name", default="command line", help="to tell it from others")
    grant = _add(commands, "grant", "give a user credits")
    grant.add_argument("username")
    grant.add_argument("credits", type=credits_as_micros, help="how many")
    grant.add_argument("--key", default="", help="a second grant with the same key gives nothing")
    grant.add_argument("--note", default="")


def _add_processes(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = _add(commands, "serve", "run the site and its relay")
    serve.add_argument("--host", default=DEFAULT_HOST)
    serve.add_argument("--port", type=port, default=DEFAULT_PORT, help="0 chooses a free one")
    serve.add_argument("--relay-port", type=port, default=DEFAULT_RELAY_PORT, help="0 chooses a free one")
    serve.add_argument("--no-relay", action="store_true", help="use the one at MESHNET_RELAY_URL, which runs elsewhere")
    serve.add_argument("--parent-pid", type=int, default=0, help="end when this parent process ends, however it does")
    relay = _add(commands, "relay", "run a relay alone")
    relay.add_argument("--host", default=DEFAULT_HOST)
    relay.add_argument("--port", type=port, default=DEFAULT_RELAY_PORT, help="0 chooses a free one")


def port(words: str) -> int:
    """A port number.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not words.isascii() or not words.isdigit() or int(words) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{words!r} is no port")
    return int(words)


def credits_as_micros(words: str) -> int:
    """Credits with up to six decimals, as micro-credits.

    Raises:
        argparse.ArgumentTypeError: not a number, below zero, or finer than a micro-credit.
    """
    try:
        micros = Decimal(words) * MICROS_PER_CREDIT
        exact = micros == micros.to_integral_value() and 0 <= micros <= 10**15
    except InvalidOperation:
        exact = False
    if not exact:
        raise argparse.ArgumentTypeError(f"{words!r} is no amount of credits with at most six decimals")
    return int(micros)

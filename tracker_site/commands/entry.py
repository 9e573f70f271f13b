"""Entry point of `meshnet site`: parses the arguments and runs one command.

Invariant: every expected failure becomes one line on stderr and an exit status, without a traceback.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError

from meshnet.errors import MeshnetError
from meshnet.printable import PATH_LENGTH_MAX, printable
from tracker_site.commands.django_setup import set_up_django
from tracker_site.commands.output import print_outcome
from tracker_site.commands.parser import build_parser
from tracker_site.commands.site_folder import require_site

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

EXIT_USAGE: Final = 2
# Codes of failures that the administrator mends by a different command line or environment; they end with status 2.
ADDRESSES: Final = frozenset({"port_taken", "port_forbidden", "address_unavailable"})
SURROUNDINGS: Final = ADDRESSES | {"relay_failed", "no_site", "not_migrated", "no_relay_url", "data_in_use"}


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status.

    Raises:
        SystemExit: the arguments are wrong or ask for help; argparse has printed a message.
    """
    chosen = build_parser().parse_args(arguments)
    try:
        return _run(chosen)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"meshnet site: {error}\n")
        return EXIT_USAGE
    except OSError as error:  # a folder or file cannot be made, read or written
        path = printable(str(error.filename or "the system"), PATH_LENGTH_MAX)
        sys.stderr.write(f"meshnet site: {path}: {error.strerror or error}\n")
        return EXIT_USAGE
    except OperationalError as error:  # for example, the disk is full or the database server does not answer
        sys.stderr.write(f"meshnet site: the database: {error}\n")
        return EXIT_USAGE
    except MeshnetError as error:
        sys.stderr.write(f"meshnet site: {error.title}: {error.message} [{error.code}]\n")
        return EXIT_USAGE if error.code in SURROUNDINGS else 1


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command != "migrate":
        require_site(needs_database=chosen.command != "relay")
    if chosen.command in {"serve", "relay"}:
        from tracker_site.commands import serving  # noqa: PLC0415 - it sets environment variables first

        return serving.serve(chosen) if chosen.command == "serve" else serving.relay(chosen)
    set_up_django()
    from tracker_site.commands.administration import COMMANDS, require_migrated  # noqa: PLC0415 - imports models

    if chosen.command != "migrate":
        require_migrated()
    outcome = COMMANDS[chosen.command](chosen)
    print_outcome(outcome, is_json=chosen.is_json)
    return outcome.status

"""From arguments to a command.

Invariant: whatever a command raises on purpose becomes one line for people and an exit status.
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
# Failures of the surroundings, not of the work.
ADDRESSES: Final = frozenset({"port_taken", "port_forbidden", "address_unavailable"})
SURROUNDINGS: Final = ADDRESSES | {"relay_failed", "no_site", "not_migrated", "no_relay_url", "data_in_use"}


def main(arguments: Sequence[str]) -> int:
    """Run one command; see `meshnet site --help`.

    Raises:
        SystemExit: argparse has told the user.
    """
    chosen = build_parser().parse_args(arguments)
    try:
        return _run(chosen)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"meshnet site: {error}\n")
        return EXIT_USAGE
    except OSError as error:  # a folder or file that cannot be made, read or written
        where = printable(str(error.filename or "the system"), PATH_LENGTH_MAX)
        sys.stderr.write(f"meshnet site: {where}: {error.strerror or error}\n")
        return EXIT_USAGE
    except OperationalError as error:  # a full disk, a database server that is not there
        sys.stderr.write(f"meshnet site: the database: {error}\n")
        return EXIT_USAGE
    except MeshnetError as error:
        sys.stderr.write(f"meshnet site: {error.title}: {error.message} [{error.code}]\n")
        return EXIT_USAGE if error.code in SURROUNDINGS else 1


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command != "migrate":
        require_site(needs_database=chosen.command != "relay")
    if chosen.command in {"serve", "relay"}:
        from tracker_site.commands import serving  # noqa: PLC0415 - it decides the environment first

        return serving.serve(chosen) if chosen.command == "serve" else serving.relay(chosen)
    set_up_django()
    from tracker_site.commands.administration import COMMANDS, require_migrated  # noqa: PLC0415 - imports models

    if chosen.command != "migrate":
        require_migrated()
    outcome = COMMANDS[chosen.command](chosen)
    print_outcome(outcome, is_json=chosen.is_json)
    return outcome.status

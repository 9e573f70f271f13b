"""Checks that the data folder holds a site before a command works on it.

Invariant: the check creates nothing. Loading Django's settings would create the folder and its key, so a command that
was meant for a site elsewhere would leave a second, empty site behind.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from meshnet.errors import MeshnetError
from meshnet.printable import printable_path
from tracker_site.config import environment as variables

if TYPE_CHECKING:
    from collections.abc import Mapping


class NoSiteError(MeshnetError):
    """The command needs a site, and the data folder holds none."""


def require_site(*, needs_database: bool, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to work on a data folder that holds no site.

    Args:
        needs_database: whether the site's database must be there. If not, its signing key is enough, as for a relay
            on a machine of its own.
        environment: the environment variables.

    Raises:
        NoSiteError: `no_site`.
    """
    folder = variables.named_data_directory(environment)
    # If the database is PostgreSQL, the folder has no database file; the secret key, drawn by `migrate`, proves a site.
    has_server = bool(variables.text(variables.DATABASE_URL, environment=environment))
    wanted = [variables.SECRET_KEY_FILE if has_server else variables.DATABASE_FILE]
    if not needs_database:
        wanted.append(variables.SITE_KEY_FILE)
    if any((folder / name).exists() for name in wanted):
        return
    is_named = bool(variables.text(variables.SITE_DATA, environment=environment))
    source = f"which {variables.SITE_DATA} names" if is_named else f"as {variables.SITE_DATA} is not set"
    message = (
        f"looked in {printable_path(folder.absolute())}, {source}: set {variables.SITE_DATA} to the "
        "folder of your site, or make a new one in this folder with `meshnet site migrate`"
    )
    raise NoSiteError("no_site", "There is no site", message)

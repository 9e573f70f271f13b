"""Whether there is a site in the data folder that a command is to work on.

Invariants: looks, and makes nothing: the settings, once loaded, make the folder and its key. So a command that was
meant for a site elsewhere leaves no second one behind.
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
    """The command needs a site, and the folder holds none."""


def require_site(*, needs_database: bool, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to work on a folder in which no site was made.

    Args:
        needs_database: otherwise the site's signing key will do, as for a relay on a machine of its own.
        environment: of the process.

    Raises:
        NoSiteError: no_site.
    """
    folder = variables.named_data_directory(environment)
    # With PostgreSQL the folder keeps what the site's processes share: the first `migrate` draws the key.
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

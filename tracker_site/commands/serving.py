"""`meshnet site serve` and `meshnet site relay`.

Invariants: the ports are chosen before Django is set up, because the settings read the relay's URL. If the start fails,
no ready line is printed and the status is 2.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys
from typing import TYPE_CHECKING

from meshnet.directory_lock import hold_directory
from meshnet.errors import MeshnetError
from meshnet.parent_death import bound_command, die_with_parent
from tracker_site.commands.django_setup import set_up_django
from tracker_site.commands.output import print_line
from tracker_site.config import environment
from tracker_site.ops.relay_process import RelayProcess
from tracker_site.ops.server import bind, probe_port, run_site

if TYPE_CHECKING:
    import argparse
    import socket

RELAY_MODULE = "tracker_site.relay"


class ServeError(MeshnetError):
    """The environment does not allow the site to serve."""


def serve(chosen: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT: Daphne in this process, and the relay as a child unless --no-relay is given.

    Raises:
        MeshnetError: its code is one of `ListenError`, `relay_failed`, `not_migrated`, `data_in_use` or `no_relay_url`.
    """
    if chosen.parent_pid:
        die_with_parent(chosen.parent_pid)
    listening = bind(chosen.host, chosen.port, "--port")
    relay_port = None if chosen.no_relay else probe_port(chosen.host, chosen.relay_port, "--relay-port")
    _decide_relay_url(chosen.host, relay_port)
    set_up_django()
    from django.conf import settings  # noqa: PLC0415 - set up just now

    from tracker_site.billing.holds import release_left  # noqa: PLC0415
    from tracker_site.commands.administration import require_migrated  # noqa: PLC0415
    from tracker_site.nodes.presence import forget_connections  # noqa: PLC0415

    require_migrated()
    if not settings.IS_SINGLE_PROCESS:
        return _run(chosen, listening, relay_port)
    message = (
        f"another site already serves with {settings.DATA_DIRECTORY}: stop it, set {environment.SITE_DATA} to another "
        "folder, or let both share PostgreSQL and Redis"
    )
    # The lock proves that no other process serves, so every connection and hold in the database is a leftover.
    with hold_directory(settings.DATA_DIRECTORY, ServeError("data_in_use", "The site's data are in use", message)):
        forget_connections()
        release_left()
        return _run(chosen, listening, relay_port)


def _run(chosen: argparse.Namespace, listening: socket.socket, relay_port: int | None) -> int:
    from django.conf import settings  # noqa: PLC0415 - set up by the caller

    from tracker_site.config.asgi import application  # noqa: PLC0415

    relay_process = None if relay_port is None else RelayProcess(bound_command(_relay_command(chosen.host, relay_port)))
    site_url = f"http://{_in_url(chosen.host)}:{listening.getsockname()[1]}"
    ready = json.dumps({"ready": True, "site": site_url, "relay": settings.RELAY_URL, "pid": os.getpid()})
    failure = run_site(application, listening, relay_process, lambda: print_line(ready))
    if failure is not None:
        raise failure
    return 0


def relay(chosen: argparse.Namespace) -> int:
    """Replace this process by the relay; does not return.

    Raises:
        ListenError: the relay's port is not available.
    """
    probe_port(chosen.host, chosen.port, "--port")
    set_up_django()
    command = _relay_command(chosen.host, chosen.port)
    os.execv(command[0], command)  # noqa: S606 - our own program


def _relay_command(host: str, relay_port: int) -> list[str]:
    from django.conf import settings  # noqa: PLC0415 - set up by the caller

    from tracker_site.nodes.site_key import site_signing_key  # noqa: PLC0415

    public_key = site_signing_key().public_key.hex()
    return [
        sys.executable, "-m", RELAY_MODULE, "--host", host, "--port", str(relay_port),
        "--relay-id", settings.RELAY_ID, "--site-public-key", public_key,
    ]  # fmt: skip


def _decide_relay_url(host: str, relay_port: int | None) -> None:
    if environment.text(environment.RELAY_URL):
        return
    if relay_port is None:
        message = f"--no-relay needs the address of a relay that runs elsewhere: set {environment.RELAY_URL} to it"
        raise ServeError("no_relay_url", "The relay's address is not known", message)
    if _is_wildcard(host):
        message = f"nodes cannot dial {host}: set {environment.RELAY_URL} to the relay's address as nodes reach it"
        raise ServeError("no_relay_url", "The relay's address is not known", message)
    environment.set_relay_url(f"ws://{_in_url(host)}:{relay_port}")


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host

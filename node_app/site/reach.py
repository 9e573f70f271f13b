"""Where this node lets peers dial.

Invariant: a node that is to be dialled listens on the address by which it reaches the site, so a site on this machine
gives loopback and a site elsewhere gives the address of the network it is reached through; whether peers get through is
found out by trying, never assumed. No packet is sent here.
"""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit

from meshnet.shard_facts import Carrier

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def choose_listen_address(site_url: str, carrier: Carrier, link_listen: str | None) -> str:
    """Return `host:port` for the worker's peer listener, empty for none; arguments as in `NodeSettings`."""
    if carrier is Carrier.RELAY or not site_url:
        return ""
    if link_listen is not None:
        return link_listen
    host = own_address_towards(site_url)
    return f"{host}:0" if host else ""


def own_address_towards(site_url: str) -> str:
    """Return the local address that packets to the site would leave by, empty where there is no way to it now."""
    parts = urlsplit(site_url)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    try:
        # Connecting a datagram socket only picks the route.
        family, kind, protocol, _, address = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            host = str(probe.getsockname()[0])
    except OSError:
        return ""
    return f"[{host}]" if ":" in host else host

"""Chooses the address on which the worker listens for peers.

Invariants: by default it is this machine's address on the way to the site: loopback if the site runs on this machine,
else the address of the network interface that leads to the site. Nothing here sends a packet, so nothing is known of
whether peers can reach the address.
"""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit

from meshnet.shard_facts import Carrier

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def choose_listen_address(site_url: str, carrier: Carrier, link_listen: str | None) -> str:
    """Return `host:port` at which the worker is to listen, empty if it must not; arguments are as in `NodeSettings`."""
    if carrier is Carrier.RELAY or not site_url:
        return ""
    if link_listen is not None:
        return link_listen
    host = own_address_towards(site_url)
    return f"{host}:0" if host else ""


def own_address_towards(site_url: str) -> str:
    """Return the local address from which packets to the site would leave, empty if there is no route to it now."""
    parts = urlsplit(site_url)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    try:
        # Connecting a datagram socket chooses a route and sends nothing.
        family, kind, protocol, _, address = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            host = str(probe.getsockname()[0])
    except OSError:
        return ""
    return f"[{host}]" if ":" in host else host

"""Who this installation is: one Ed25519 key for its whole life, and the name each site gave it.

Invariants: the key is drawn once and never leaves the state directory; node ids are kept by site, so that a node which
serves another site for a while is known to the first when it comes back. Files are private and written whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from meshnet.keys import PRIVATE_KEY_BYTES, SigningKey
from node_app.system.state_files import StateError, read_bounded, write_private

if TYPE_CHECKING:
    from pathlib import Path

KEY_FILE = "install.key"
SITES_FILE = "sites.json"
SITES_LIMIT_BYTES = 64 * 1024


class IdentityStore:
    """Key and node ids in one state directory, which the caller has prepared and holds."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def signing_key(self) -> SigningKey:
        """Return this installation's key, drawn at the first call ever.

        Raises:
            StateError: the file is there but holds no key. It is never replaced: the site knows the node by it.
        """
        path = self._directory / KEY_FILE
        data = read_bounded(path, PRIVATE_KEY_BYTES)
        if data is None:
            key = SigningKey.generate()
            write_private(path, key.to_bytes())
            return key
        try:
            return SigningKey.from_bytes(data)
        except ValueError as error:
            message = f"{path} holds no install key; restore it, or remove it to become a new node"
            raise StateError("state_damaged", "State damaged", message) from error

    def node_id(self, site_url: str) -> str:
        """Return what the site calls this node, empty where it never enrolled there."""
        return self._node_ids().get(site_url, "")

    def remember(self, site_url: str, node_id: str) -> None:
        """Keep what the site calls this node; empty: forget it."""
        node_ids = {**self._node_ids(), site_url: node_id}
        kept = {site: name for site, name in node_ids.items() if name}
        write_private(self._directory / SITES_FILE, json.dumps(kept, indent=1).encode())

    def _node_ids(self) -> dict[str, str]:
        path = self._directory / SITES_FILE
        data = read_bounded(path, SITES_LIMIT_BYTES)
        if data is None:
            return {}
        try:
            value = json.loads(data)
        except ValueError as error:
            raise StateError("state_damaged", "State damaged", f"{path} is not JSON; remove it") from error
        if not isinstance(value, dict):
            raise StateError("state_damaged", "State damaged", f"{path} is not an object; remove it")
        return {site: name for site, name in value.items() if isinstance(site, str) and isinstance(name, str)}

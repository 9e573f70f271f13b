"""The identity of this installation: one Ed25519 key for its whole life, and the node id that each site gave it.

Invariants: the key is generated once and never leaves the state directory. Node ids are kept for each site, so that a
node which serves another site for a while is still known when it comes back. Files are private and written whole.
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
    """Keeps the key and the node ids in a state directory, which the caller has prepared and locked."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def signing_key(self) -> SigningKey:
        """Return this installation's key; if the state directory has none yet, generate it.

        Raises:
            StateError: the key's file is damaged or unreadable. It is never replaced: sites know the node by its key.
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
        """Return this node's id at a site; empty if it has not enrolled there."""
        return self._node_ids().get(site_url, "")

    def remember(self, site_url: str, node_id: str) -> None:
        """Keep this node's id at a site; an empty id removes the site's entry."""
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
            raise _damaged(path, "is not JSON") from error
        if not isinstance(value, dict):
            raise _damaged(path, "is no JSON object")
        return {site: name for site, name in value.items() if isinstance(site, str) and isinstance(name, str)}


def _damaged(path: Path, problem: str) -> StateError:
    message = f"{path} {problem}; remove it and start the node with --token"
    return StateError("state_damaged", "State damaged", message)

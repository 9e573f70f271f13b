"""The sessions that are open on each node, and for each the reply channel to which its end is reported.

Invariants: an entry is added when a node has opened the session's stage. It is removed once: when the site closes the
session, when the node reports its end, or when a reconnecting node does not list it. An entry outlives a lost control
connection, so that a node that comes back is told to keep its wanted sessions. The entries live in the process that
holds the node's connection, on its event loop; if a node reconnects to another process, or after a restart, it is told
to keep nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.ids import SessionKey


class OpenStages:
    """The reply channel of each open session of each node."""

    def __init__(self) -> None:
        self._channels: defaultdict[str, dict[SessionKey, str]] = defaultdict(dict)

    def add(self, node_id: str, key: SessionKey, reply_channel: str) -> None:
        """Note that the node has opened the session, and that `reply_channel` is to get the news of its end."""
        self._channels[node_id][key] = reply_channel

    def remove(self, node_id: str, key: SessionKey) -> str | None:
        """Remove a session that is over on the node; return its reply channel, or None if it was not open."""
        sessions = self._channels.get(node_id)
        channel = sessions.pop(key, None) if sessions is not None else None
        if sessions is not None and not sessions:
            del self._channels[node_id]
        return channel

    def of_node(self, node_id: str) -> dict[SessionKey, str]:
        """Return the reply channels of the sessions that are open on a node."""
        return dict(self._channels.get(node_id, {}))

    def reconcile(
        self, node_id: str, listed: Iterable[SessionKey]
    ) -> tuple[frozenset[SessionKey], dict[SessionKey, str]]:
        """Compare the entries with the sessions that a reconnecting node lists.

        Returns:
            The sessions that the node is to keep, and the reply channels of the sessions that it has lost. The lost
            sessions are removed.
        """
        wanted = self.of_node(node_id)
        keep = frozenset(listed) & wanted.keys()
        lost = {key: channel for key, channel in wanted.items() if key not in keep}
        for key in lost:
            self.remove(node_id, key)
        return keep, lost

    def __len__(self) -> int:
        return sum(len(sessions) for sessions in self._channels.values())


open_stages = OpenStages()

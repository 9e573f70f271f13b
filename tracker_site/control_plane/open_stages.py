"""Which sessions are open on which node, and who wants to hear of their end.

Invariants: an entry is added when a node opened the session's stage and leaves once: when the site closes the
session, when the node says it ended, or when a reconnecting node does not list it. It outlives a lost control
connection, so that a node which comes back is told to keep what is still wanted. Lives in the process that holds the
node's connection, on its event loop; a node that reconnects to another process, or after a restart, is told to keep
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.ids import SessionKey


class OpenStages:
    """Reply channels by node and session."""

    def __init__(self) -> None:
        self._channels: defaultdict[str, dict[SessionKey, str]] = defaultdict(dict)

    def add(self, node_id: str, key: SessionKey, reply_channel: str) -> None:
        """The node opened the session."""
        self._channels[node_id][key] = reply_channel

    def remove(self, node_id: str, key: SessionKey) -> str | None:
        """The session is over there; its reply channel, or None where it was not open."""
        sessions = self._channels.get(node_id)
        channel = sessions.pop(key, None) if sessions is not None else None
        if sessions is not None and not sessions:
            del self._channels[node_id]
        return channel

    def of_node(self, node_id: str) -> dict[SessionKey, str]:
        """Reply channels of everything open on a node."""
        return dict(self._channels.get(node_id, {}))

    def reconcile(
        self, node_id: str, listed: Iterable[SessionKey]
    ) -> tuple[frozenset[SessionKey], dict[SessionKey, str]]:
        """Compare with what a reconnecting node still has.

        Returns:
            What the node shall keep, and the reply channels of what it has lost, which are forgotten here.
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

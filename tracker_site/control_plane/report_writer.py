"""Stores a connection's reports without delaying its other messages.

Invariants: one report is written at a time, and of the reports that arrive meanwhile only the newest waits. If the
connection is no longer the node's current one, its report is dropped. A report is confirmed to the node only after its
transaction. The writer lives on the event loop, from the node's identification to the end of the connection.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from django.db import Error

from tracker_site import database
from tracker_site.nodes import presence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from meshnet.shard_facts import ShardIdentity
    from tracker_site.nodes.notices import Notice
    from tracker_site.nodes.reports import Report

logger = logging.getLogger(__name__)


class ReportWriter:
    """Keeps the newest report that is not stored yet, and a task that stores it."""

    def __init__(self, node_id: str, channel_name: str, on_stored: Callable[[int, Notice], Awaitable[None]]) -> None:
        """Start the writing task.

        Args:
            node_id: the node's UUID as text.
            channel_name: the connection's channel.
            on_stored: called after each stored report with its `report_id` and the notice for the node.
        """
        self._node_id = node_id
        self._channel_name = channel_name
        self._on_stored = on_stored
        self._newest: Report | None = None
        self._arrived = asyncio.Event()
        self._stored: frozenset[ShardIdentity] | None = None
        self._task = asyncio.create_task(self._run(), name=f"reports of node {node_id}")

    def offer(self, report: Report) -> None:
        """Queue a report, in place of an older report that still waits."""
        self._newest = report
        self._arrived.set()

    async def stop(self) -> None:
        """Stop writing. Idempotent."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            report, self._newest = self._newest, None
            if report is None:
                continue
            try:
                await self._write(report)
            except Error:
                # The next heartbeat brings a new report; until then the lease of the last stored report runs on.
                logger.exception("the report of node %s could not be stored", self._node_id)

    async def _write(self, report: Report) -> None:
        is_same = report.identities == self._stored
        notice = await database.write(
            presence.record_report, self._node_id, self._channel_name, report, is_same_shards=is_same
        )
        if notice is not None:
            self._stored = report.identities
            await self._on_stored(report.report_id, notice)

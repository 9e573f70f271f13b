"""Runs the plan's steps that concern the site: enrols the node, holds the control connection and sends reports.

Invariants: `plan.py` decides which steps run. If the site refuses the node until a person changes something, the agent
ends with the site's reason. A report shows the agent's state at the moment it is sent. One event loop runs everything.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.backoff import Backoff
from meshnet.errors import TransferError
from meshnet.shard_facts import NodeReach
from node_app.agent.events import (
    ControlDown,
    ControlUp,
    EnrolFailed,
    Enrolled,
    Event,
    FatalFailure,
    IdentityForgotten,
    NoticeChanged,
    Reported,
    ReportStored,
)
from node_app.agent.reporting import build_report
from node_app.settings import token_missing
from node_app.site.control_connection import ControlConnection, NodeRefusedError, control_url
from node_app.site.enrolment import EnrolmentRefusedError, EnrolmentRequest, enrol
from node_app.system.blocking import run_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.keys import SigningKey
    from meshnet.v1 import control_pb2
    from node_app.agent.state import AgentState
    from node_app.agent.worker_life import WorkerLife
    from node_app.sessions.stages import StageKeeper
    from node_app.settings import NodeSettings
    from node_app.site.control_machine import Welcomed
    from node_app.site.identity import IdentityStore

logger = logging.getLogger(__name__)

ENROL_BACKOFF: Final = Backoff(first_s=0.5, longest_s=60.0)

# Several changes of one moment (a session opens on the worker and at the relay) are one report.
REPORT_COALESCE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class SiteContext:
    """The parts of the agent that `SiteSide` uses.

    Attributes:
        stages: opens and closes the stages that the site asks for.
        state: returns the agent's present state.
        emit: changes the agent's state by an event.
        on_relay_news: called each time the site has accepted the node and named its relay.
        latency_ms: returns the one-way time to the relay in ms; None if it is not measured.
        jitter: returns a random number, uniform in [0, 1), by which waits are varied.
    """

    settings: NodeSettings
    identity: IdentityStore
    key: SigningKey
    worker: WorkerLife
    stages: StageKeeper
    state: Callable[[], AgentState]
    emit: Callable[[Event], None]
    on_relay_news: Callable[[], None]
    latency_ms: Callable[[], float | None]
    jitter: Callable[[], float]


class SiteSide:
    """Runs the steps ENROL, HOLD_CONTROL and REPORT of the plan, and handles news from the control connection."""

    def __init__(self, context: SiteContext) -> None:
        self._context = context
        self._emit = context.emit
        url = control_url(context.settings.site_url)
        self.connection = ControlConnection(url, context.key, context.stages, self, context.jitter)

    async def enrol(self) -> None:
        """Wait the state's `enrol_delay_s`, try once to enrol the node, and emit the result as an event."""
        settings, state = self._context.settings, self._context.state()
        if settings.token is None:
            problem = token_missing(settings.site_url)
            self._emit(FatalFailure(f"this installation is not enrolled at the site: {problem}"))
            return
        await asyncio.sleep(state.enrol_delay_s)
        request = EnrolmentRequest(settings.site_url, settings.token, self._context.key.public_key, settings.name)
        try:
            node_id = await run_blocking(lambda: enrol(request), "enrolment")
        except TransferError as error:
            delay_s = ENROL_BACKOFF.delay_s(state.enrol_failures + 1, self._context.jitter())
            logger.warning("%s; next try in %.1f s", error.message, delay_s)
            self._emit(EnrolFailed(delay_s))
        except EnrolmentRefusedError as error:
            self._emit(FatalFailure(error.message))
        else:
            self._context.identity.remember(settings.site_url, node_id)
            self._emit(Enrolled(node_id))

    async def hold_control(self) -> None:
        """Hold the control connection until this call is cancelled or the site refuses the node for good."""
        try:
            await self.connection.run()
        except NodeRefusedError as error:
            self._on_refused(error)
        finally:
            self._emit(ControlDown())

    def _on_refused(self, error: NodeRefusedError) -> None:
        settings = self._context.settings
        if error.code == "unknown_node" and settings.token is not None:
            logger.warning("the site does not know this node any more; enrolling again")
            self._context.identity.remember(settings.site_url, "")
            self._emit(IdentityForgotten())
        else:
            self._emit(FatalFailure(f"the site refuses this node: {error.message} [{error.code}]"))

    async def report(self) -> None:
        """Send one report of the node after 20 ms, so that several changes in this time need only one report."""
        await asyncio.sleep(REPORT_COALESCE_S)
        revision = self._context.state().revision
        self.connection.send_report()
        # If the connection has just been lost, the next one begins with a report anyway.
        self._emit(Reported(revision))

    # For the control connection

    def build_report(self) -> control_pb2.NodeReport:
        """Return a report of the node's present state."""
        state, worker, settings = self._context.state(), self._context.worker, self._context.settings
        reach = NodeReach(
            carrier=settings.carrier,
            link_address=worker.peers.address,
            link_fingerprint=worker.peers.fingerprint,
            data_connected=state.is_data_connected,
            latency_ms=self._context.latency_ms(),
            upload_bytes_per_s=settings.upload_bytes_per_s,
        )
        return build_report(state, worker.shard, worker.status, reach)

    def on_welcome(self, welcome: Welcomed) -> None:
        """Note that the site accepted the node, and dial the relay that it names at once."""
        self._emit(ControlUp(welcome.relay_url))
        # If the site was restarted, it has a new relay, perhaps elsewhere, which is dialled at once.
        self._context.on_relay_news()

    def on_report_stored(self, report_id: int, earned_micros: int | None) -> None:
        """Note that the site has stored the report that shows the state's revision `report_id`."""
        self._emit(ReportStored(report_id, earned_micros))

    def on_notice(self, code: str, message: str) -> None:
        """Log why the site does not use this node or, if `code` is empty, that it can again; keep it for the status."""
        if code:
            logger.warning("the site does not use this node: %s [%s]", message, code)
        else:
            logger.info("the site can use this node again")
        self._emit(NoticeChanged(code, message))

    def on_down(self, reason: str) -> None:
        """Note that the control connection is lost. Sessions go on, since the site may keep them when it is back."""
        logger.debug("control connection down: %s", reason)
        self._emit(ControlDown())

"""`meshnet node`: builds the parts of a node and runs it.

Invariants: the exit status is 2 if an option or a file is wrong, and 1 if the node fails later; either way one line on
stderr says why. stdout carries only ready lines (`agent/ready.py`). The state directory is locked while the agent runs.
The port of the local API is bound before anything is started, so that a taken port is known at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.errors import MeshnetError
from meshnet.llama_library import name_library
from node_app.agent.agent import Agent, AgentParts
from node_app.agent.ready import ReadyLine
from node_app.agent.worker_life import WorkerLife
from node_app.artifacts.digest_cache import DigestCache
from node_app.artifacts.model_file import ModelFile, open_model
from node_app.hardware.detect import detect_hardware
from node_app.loopback.openai.api import api_url, bind_api, build_api
from node_app.loopback.status_server import StatusServer
from node_app.settings import NodeSettings, SettingsError, parse_settings
from node_app.site.golden_rows import GoldenSource
from node_app.site.identity import IdentityStore
from node_app.site.reach import choose_listen_address
from node_app.system.logs import configure_logging
from node_app.system.open_files import raise_open_files_limit
from node_app.system.runtime_directory import local_links_directory, socket_path
from node_app.system.state_files import hold_directory, prepare_directory
from node_app.worker.health import HealthLimits
from node_app.worker.limits import AskedLimits
from node_app.worker.process import WorkerCommand, find_worker_program
from node_app.worker.supervisor import WorkerSupervisor

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from node_app.system.logs import RecentLines

logger = logging.getLogger(__name__)

EXIT_FAILED: Final = 1
EXIT_WRONG: Final = 2


def main(arguments: Sequence[str]) -> int:
    """Run a node until the volunteer quits it or it fails, and return the exit status."""
    try:
        settings = parse_settings(arguments, os.environ)
        model = open_model(settings.gguf_path, settings.layers)
        program = find_worker_program(settings.worker_path)
        prepare_directory(settings.state_dir)
        listening = _bind_api(settings, model)
    except MeshnetError as error:
        return _fail(error, EXIT_WRONG)
    name_library(os.environ, [program.parent])
    raise_open_files_limit()
    recent = configure_logging(as_json=settings.json_log)
    try:
        with hold_directory(settings.state_dir):
            command = WorkerCommand(
                program=program,
                socket_path=socket_path(settings.state_dir),
                link_listen=choose_listen_address(settings.site_url, settings.carrier, settings.link_listen),
                local_links=local_links_directory,
            )
            return asyncio.run(run_node(NodeParts(settings, model, command, recent, listening)))
    except MeshnetError as error:
        return _fail(error, EXIT_FAILED)


def _fail(error: MeshnetError, status: int) -> int:
    sys.stderr.write(f"meshnet node: {error.message} [{error.code}]\n")
    return status


def _bind_api(settings: NodeSettings, model: ModelFile) -> socket.socket | None:
    """Return the local API's listening socket; None if the API is switched off or the node has a part of a model.

    Raises:
        SettingsError: the port is taken; or the node has a part of a model, and --site is missing or --api-port names
            a port.
    """
    if not model.is_whole:
        if not settings.site_url:
            raise SettingsError(
                "--site is missing: without a site, a part of a model has no use; omit --layers or add --site"
            )
        if settings.api_port:
            raise SettingsError(
                f"--api-port: layers {model.layers} of {model.n_layers} cannot answer by themselves; omit it"
            )
        return None
    return None if settings.api_port is None else bind_api(settings.api_port)


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts from which `run_node` builds a node.

    Attributes:
        command: starts the worker.
        recent: keeps the last log lines.
        listening: the listening socket of the local API; None if the API is not open.
    """

    settings: NodeSettings
    model: ModelFile
    command: WorkerCommand
    recent: RecentLines
    listening: socket.socket | None


async def run_node(parts: NodeParts) -> int:
    """Run the agent, its status endpoint and, if its port is bound, the local API; return the exit status."""
    settings, model, listening = parts.settings, parts.model, parts.listening
    url = None if listening is None else api_url(listening)
    agent = _build_agent(parts, ReadyLine(str(model.layers), url, sys.stdout, once=settings.once_ready_line))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, agent.quit)
    if not settings.site_url:
        logger.info("no --site: the node serves only this machine, at %s", url)
    async with AsyncExitStack() as stack:
        if listening is not None:
            await stack.enter_async_context(build_api(listening, agent, model))
        await stack.enter_async_context(StatusServer(agent, model, parts.recent, url))
        reason = await agent.run()
    if reason:
        sys.stderr.write(f"meshnet node: {reason}\n")
    return EXIT_FAILED if reason else 0


def _build_agent(parts: NodeParts, ready: ReadyLine) -> Agent:
    settings = parts.settings
    asked = AskedLimits(settings.threads, settings.context_length, settings.max_sessions)
    supervisor, digests = WorkerSupervisor(parts.command, HealthLimits()), DigestCache(settings.state_dir)
    goldens = GoldenSource(settings.site_url) if settings.site_url else None
    life = WorkerLife(supervisor, parts.model, asked, detect_hardware(), digests, goldens=goldens)
    return Agent(AgentParts(settings, IdentityStore(settings.state_dir), life, random.random, ready.observe))

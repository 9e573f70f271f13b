"""`meshnet node`: puts the parts of a node together and runs it.

Invariants: status 2 for what the command line or the files got wrong, 1 for a failure while running, each with one line
on stderr; stdout carries ready lines only. The state directory is held for as long as the agent runs.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from typing import TYPE_CHECKING, Final

from meshnet.errors import ArtifactError, MeshnetError
from node_app.agent import Agent, AgentParts
from node_app.artifacts.digest_cache import DigestCache
from node_app.artifacts.model_file import ModelFile, open_model
from node_app.hardware.detect import detect_hardware
from node_app.identity import IdentityStore
from node_app.local_api import LocalApi
from node_app.logs import configure_logging
from node_app.reach import choose_listen_address
from node_app.ready import ReadyLine
from node_app.runtime_directory import socket_path
from node_app.settings import NodeSettings, SettingsError, parse_settings
from node_app.state_files import StateError, hold_directory, prepare_directory
from node_app.worker.health import HealthLimits
from node_app.worker.limits import Wishes
from node_app.worker.process import WorkerCommand, find_worker_program
from node_app.worker.supervisor import WorkerSupervisor
from node_app.worker_life import WorkerLife

if TYPE_CHECKING:
    from collections.abc import Sequence

    from node_app.logs import RecentLines

EXIT_FAILED: Final = 1
EXIT_WRONG: Final = 2


def main(arguments: Sequence[str]) -> int:
    """Run a node until it is asked to quit; return the exit status."""
    try:
        settings = parse_settings(arguments, os.environ)
        model = open_model(settings.gguf_path, settings.layers)
        program = find_worker_program(settings.worker_path)
        prepare_directory(settings.state_dir)
    except (SettingsError, ArtifactError, StateError) as error:
        return _fail(error, EXIT_WRONG)
    except MeshnetError as error:
        return _fail(error, EXIT_WRONG)
    recent = configure_logging(as_json=settings.json_log)
    try:
        with hold_directory(settings.state_dir):
            command = WorkerCommand(
                program=program,
                socket_path=socket_path(settings.state_dir),
                link_listen=choose_listen_address(settings),
                allow_probe=settings.allow_probe,
            )
            return asyncio.run(run_node(settings, model, command, recent))
    except MeshnetError as error:
        return _fail(error, EXIT_FAILED)


def _fail(error: MeshnetError, status: int) -> int:
    sys.stderr.write(f"meshnet node: {error.message} [{error.code}]\n")
    return status


async def run_node(settings: NodeSettings, model: ModelFile, command: WorkerCommand, recent: RecentLines) -> int:
    """Build the agent and its loopback status endpoint, run them, and return the exit status."""
    wishes = Wishes(settings.threads, settings.context_length, settings.max_sessions)
    life = WorkerLife(
        WorkerSupervisor(command, HealthLimits()), model, wishes, detect_hardware(), DigestCache(settings.state_dir)
    )
    ready = ReadyLine(str(model.layers), sys.stdout, once=settings.once_ready_line)
    parts = AgentParts(settings, IdentityStore(settings.state_dir), life, random.random, ready.observe)
    agent = Agent(parts)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, agent.quit)
    async with LocalApi(agent, model, settings.state_dir, recent):
        reason = await agent.run()
    if reason:
        sys.stderr.write(f"meshnet node: {reason}\n")
    return EXIT_FAILED if reason else 0

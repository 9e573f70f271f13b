"""Runs the torch worker as a process: reads its command line and serves with an engine on one thread."""

from __future__ import annotations

import argparse
import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from node_app.reference_worker.sessions.service import WorkerService
from node_app.reference_worker.sessions.serving import (
    add_report_arguments,
    add_worker_arguments,
    serve_until_told,
    serving,
)
from node_app.reference_worker.sessions.state import ReferenceState
from node_app.reference_worker.sessions.stepping import run_steps
from node_app.reference_worker.torch.program import TorchProgram, devices_json, version_json
from node_app.reference_worker.torch.steps import run_step


def serve() -> None:
    """Serve until told to end, or print the report that the command line asks for."""
    parser = argparse.ArgumentParser(prog="meshnet-torch-worker", description="a worker that computes with PyTorch")
    add_worker_arguments(parser)
    add_report_arguments(parser, version_json, devices_json)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="meshnet-worker: %(message)s")
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine") as thread:
        state = ReferenceState()
        service = WorkerService(state, TorchProgram(thread))
        worker = serving(arguments.socket, service, run_steps(state, run_step, thread))
        asyncio.run(serve_until_told(arguments, worker))

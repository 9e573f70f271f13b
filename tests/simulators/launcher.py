"""An executable file that runs the simulated worker, for whatever wants the path of a worker program."""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields
from pathlib import Path

from tests.simulators.faults import Faults

WORKER = Path(__file__).with_name("worker.py")


def write_worker_program(folder: Path, faults: Faults | None = None, *, name: str = "simulated-worker") -> Path:
    """Write `folder/name`, which runs the simulator with this interpreter and these faults; returns its path."""
    command = [sys.executable, str(WORKER), *_fault_arguments(faults or Faults())]
    program = folder / name
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    program.chmod(0o755)
    return program


def _fault_arguments(faults: Faults) -> list[str]:
    arguments: list[str] = []
    for field in fields(Faults):
        value = getattr(faults, field.name)
        option = f"--fault-{field.name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif value is not False and value != field.default:
            arguments.append(f"{option}={value}")
    return arguments

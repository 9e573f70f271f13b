"""Runs the worker program to read its reports, and Python to find modules that cannot be imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Final

from node_app.doctor.judging.worker import ProgramRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RUN_TIMEOUT_S: Final = 15.0
IMPORT_TIMEOUT_S: Final = 25.0
# The status by which a shell says that a program could not be started.
NOT_STARTED: Final = 127
OUTPUT_LIMIT_BYTES: Final = 64 * 1024
REASON_LENGTH_MAX: Final = 200

# Runs in a process of its own, since a loaded library stays loaded and a broken one can end the process.
_TRY_IMPORTS: Final = """\
import importlib, json, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        problem = ""
    except Exception as error:
        problem = str(error) or type(error).__name__
    print(json.dumps([name, problem]), flush=True)
"""


def run_worker(program: Path, option: str) -> ProgramRun:
    """Run the worker with an option that makes it print a report and end.

    Variables named MESHNET_* are removed from its environment, since they may hold tokens.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MESHNET_")}
    return _run([str(program), option], RUN_TIMEOUT_S, environment | {"GGML_NO_BACKTRACE": "1"})


def read_import_problems(modules: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the modules that cannot be imported, by name, with the reason for each.

    Args:
        modules: names of the modules to try.
        environment: all environment variables of the process that tries the imports.
    """
    done = _run([sys.executable, "-c", _TRY_IMPORTS, *modules], IMPORT_TIMEOUT_S, environment)
    tried = dict(_parse_lines(done.output))
    problems = {name: tried.get(name, "the interpreter ended or hung before it was imported") for name in modules}
    return {name: problem[:REASON_LENGTH_MAX] for name, problem in problems.items() if problem}


def _parse_lines(output: bytes) -> list[tuple[str, str]]:
    pairs = []
    for line in output.splitlines():
        try:
            name, problem = json.loads(line)
        except (ValueError, TypeError):
            continue  # a module printed something while it was imported
        pairs.append((str(name), str(problem)))
    return pairs


def _run(command: Sequence[str], timeout_s: float, environment: Mapping[str, str]) -> ProgramRun:
    """Run a program, at most `timeout_s` long, and return its status and a limited part of its output."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            status = subprocess.run(  # noqa: S603 - the worker that the volunteer named, and this interpreter
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=timeout_s,
                env=environment,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return ProgramRun(None, _read_head(output))
        except OSError as error:
            return ProgramRun(NOT_STARTED, error=error.strerror or type(error).__name__)
        return ProgramRun(status, _read_head(output), _last_line(errors))


def _read_head(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(OUTPUT_LIMIT_BYTES)


def _last_line(file: IO[bytes]) -> str:
    """Return a file's last line; if the line is longer than the limit, the end of it."""
    length_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(0, length_bytes - OUTPUT_LIMIT_BYTES))
    lines = file.read(OUTPUT_LIMIT_BYTES).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""

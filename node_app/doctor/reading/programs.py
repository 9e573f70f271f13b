"""Short runs of programs: the worker's own reports, and what Python can import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from node_app.doctor.judging.worker import ProgramRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RUN_TIMEOUT_S: Final = 15.0
IMPORT_TIMEOUT_S: Final = 25.0
OUTPUT_LIMIT_BYTES: Final = 64 * 1024
REASON_LENGTH_MAX: Final = 200

# In a process of its own: what is loaded stays loaded, and a broken library can end its process.
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
    """Run the worker with one option that makes it report and end; without our variables, which may hold tokens."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MESHNET_")}
    return _run([str(program), option], RUN_TIMEOUT_S, environment | {"GGML_NO_BACKTRACE": "1"})


def read_import_problems(modules: Sequence[str], library_folder: Path | None = None) -> dict[str, str]:
    """Return why modules cannot be imported, by name; those that can are left out.

    Args:
        modules: their names.
        library_folder: where the bindings of llama.cpp find its library, as the node sets it; the environment wins.
    """
    environment = dict(os.environ)
    if library_folder is not None and any(library_folder.glob("libllama.*")):
        environment.setdefault("LLAMA_CPP_LIB_PATH", str(library_folder))
    done = _run([sys.executable, "-c", _TRY_IMPORTS, *modules], IMPORT_TIMEOUT_S, environment)
    tried = dict(_parse_lines(done.output))
    problems = {name: tried.get(name, "the interpreter ended or hung before or at it") for name in modules}
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
    try:
        done = subprocess.run(  # noqa: S603 - the worker that the volunteer named, and this interpreter
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        return ProgramRun(None, (error.stdout or b"")[:OUTPUT_LIMIT_BYTES])
    except OSError as error:
        return ProgramRun(127, error=error.strerror or type(error).__name__)
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return ProgramRun(done.returncode, done.stdout[:OUTPUT_LIMIT_BYTES], lines[-1] if lines else "")

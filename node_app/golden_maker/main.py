"""`meshnet probe`: the command that computes and writes a golden probe.

Invariants: the exit status is 0 if the file was written, 1 if anything failed, 2 if the command line is wrong. The file
is whole or absent. The worker is ended before the command ends, even if the command fails.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meshnet.artifact.gguf import artifact_digest, read_header
from meshnet.artifact.model.cuts import legal_cuts
from meshnet.errors import ArtifactError
from meshnet.golden.comparing import SAME_BACKEND
from meshnet.golden.probe import write_golden
from node_app.artifacts.model_file import open_model
from node_app.golden_maker.options import ProbeOptions, parse_options
from node_app.golden_maker.output import require_writable, write_output
from node_app.golden_maker.walk import Walk, make_golden
from node_app.hardware.detect import detect_hardware
from node_app.system.runtime_directory import SOCKET_NAME, compute_turn_path, shared_directory
from node_app.worker.client import WorkerClient
from node_app.worker.process import WorkerCommand, WorkerProcess, find_worker_program
from node_app.worker.supervisor import END_GRACE_S, START_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from node_app.golden_maker.walk import MadeGolden
    from node_app.settings import LayerSpan


@dataclass(frozen=True, slots=True)
class _Done:
    """The finished golden probe, its size, and the seconds that the command took; the command prints them."""

    made: MadeGolden
    size_bytes: int
    seconds: float


def main(arguments: Sequence[str]) -> int:
    """Make a golden probe, write it, and return the exit status.

    Raises:
        MeshnetError: the model cannot be used, the worker failed, or the file cannot be written.
        SystemExit: argparse has printed help or an error.
    """
    options = parse_options(arguments)
    started_s = time.monotonic()
    made = asyncio.run(_make(options, _plan(options)))
    data = write_golden(made.golden)
    write_output(options.output, data)
    done = _Done(made, len(data), time.monotonic() - started_s)
    sys.stdout.write((_as_json(done) if options.as_json else _as_text(options, done)) + "\n")
    return 0


def _plan(options: ProbeOptions) -> Walk:
    model = open_model(options.gguf_path, None)
    require_writable(options.output, model.paths)
    cuts = legal_cuts(read_header(options.gguf_path)).cuts
    try:
        digest = artifact_digest(model.paths)
    except OSError as error:
        raise ArtifactError("unreadable", "File cannot be read", str(error)) from error
    threads = options.threads or detect_hardware().figures().cores
    return Walk(model, digest, cuts, threads, str(compute_turn_path()), _tell)


def _tell(layers: LayerSpan) -> None:
    sys.stderr.write(f"probe: layers {layers}\n")


async def _make(options: ProbeOptions, walk: Walk) -> MadeGolden:
    program = find_worker_program(options.worker_path)
    with tempfile.TemporaryDirectory(prefix="probe-", dir=shared_directory()) as folder:
        command = WorkerCommand(program, Path(folder) / SOCKET_NAME, "", lambda: None)
        process = await WorkerProcess.start(command, START_TIMEOUT_S)
        client = WorkerClient(command.socket_path)
        try:
            return await make_golden(client, walk)
        finally:
            await client.close()
            await process.end(END_GRACE_S)


def _as_json(done: _Done) -> str:
    golden, errors = done.made.golden, done.made.one_by_one
    return json.dumps(
        {
            "artifact_digest": golden.artifact_digest.hex(),
            "n_layers": golden.n_layers,
            "cuts": len(golden.cuts),
            "rows": len(golden.token_ids),
            "backend": golden.backend,
            "pin": golden.pin,
            "compared": len(errors.rows),
            "one_by_one": {"cosine": round(errors.cosine, 6), "error": round(errors.error, 5)},
            "bytes": done.size_bytes,
            "seconds": round(done.seconds, 1),
        }
    )


def _as_text(options: ProbeOptions, done: _Done) -> str:
    golden = done.made.golden
    return (
        f"{options.output}: {len(golden.token_ids)} rows at {len(golden.cuts)} cuts and the logits, "
        f"{done.size_bytes} bytes, {done.seconds:.1f} s; one by one: {done.made.one_by_one.describe(SAME_BACKEND)}"
    )

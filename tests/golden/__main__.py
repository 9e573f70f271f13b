"""`make self-test`: how far engines are from the demo model's golden probe, and how far a broken weight is.

Progress and a table go to standard error; the last line of standard output is one JSON object. Exit status 1 when a
range of a good engine does not pass, when a layer with a broken weight does, or when nothing was compared. See
docs/parity.md, Self test.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import demo_model
from meshnet.artifact.gguf import read_header
from meshnet.errors import WorkerError
from meshnet.golden.comparing import OTHER_BACKEND, SAME_BACKEND, RowErrors, tolerance_for
from meshnet.golden.probe import GoldenProbe
from node_app.settings import LayerSpan
from node_app.worker.client import WorkerClient
from tests.integration.node_app.reference_worker.torch_routes import torch_worker
from tests.integration.self_test.ranges import a_worker, errors_of, golden_by, kind_of, ranges_of

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "build/native/cpu/bin/meshnet-worker"
BROKEN_LAYER = 7
PARTS = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
# With the broken layer alone, in a half of the model, and in the whole.
BROKEN_RANGES = (LayerSpan(7, 8), LayerSpan(0, 15), LayerSpan(0, 30))


@dataclass
class Record:
    """What was found, by engine or broken part and by kind of range."""

    ranges: int = 0
    passed: int = 0
    rows: int = 0
    worst: dict[str, dict[str, float]] = field(default_factory=dict)
    controls: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def controls_seen(self) -> int:
        """Broken parts that a shard of their layer alone does not pass with, by either tolerance."""
        return sum(verdicts[str(BROKEN_RANGES[0])] == "fails both" for verdicts in self.controls.values())

    def is_good(self) -> bool:
        return 0 < self.ranges == self.passed and len(self.controls) == self.controls_seen == len(PARTS)


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


async def _measure(client: WorkerClient, model: Path, golden: GoldenProbe, name: str, record: Record) -> None:
    found: dict[str, RowErrors] = {}
    for layers in ranges_of(golden):
        backend, at_once, one_by_one = await errors_of(client, model, layers, golden)
        tolerance = tolerance_for(golden.backend, backend)
        record.ranges += 1
        record.passed += at_once.is_within(tolerance) and one_by_one.is_within(tolerance)
        kind = kind_of(layers, golden.n_layers)
        found[kind] = found.get(kind, RowErrors()) + at_once + one_by_one
    for kind, errors in found.items():
        record.rows += len(errors.rows)
        record.worst[f"{name}, {kind}"] = {"cosine": round(errors.cosine, 5), "error": round(errors.error, 4)}
        _tell(f"  {name}, {kind}: {errors.describe(SAME_BACKEND)}")


def _broken_copies(model: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """The model with the second half of one tensor's bytes zeroed."""
    tensors = {tensor.name: tensor for tensor in read_header(model).tensors}
    for part in PARTS:
        tensor = tensors[f"blk.{BROKEN_LAYER}.{part}.weight"]
        copy = folder / "broken.gguf"
        shutil.copy(model, copy)
        with copy.open("r+b") as file:
            file.seek(tensor.offset_bytes + tensor.size_bytes // 2)
            file.write(bytes(tensor.size_bytes - tensor.size_bytes // 2))
        yield part, copy


async def _break(client: WorkerClient, model: Path, golden: GoldenProbe, folder: Path, record: Record) -> None:
    for part, copy in _broken_copies(model, folder):
        verdicts = {}
        for layers in BROKEN_RANGES:
            try:
                _, *both = await errors_of(client, copy, layers, golden)
            except WorkerError as error:
                verdicts[str(layers)] = f"refused: {error.code}"
                continue
            passes = [all(one.is_within(tolerance) for one in both) for tolerance in (SAME_BACKEND, OTHER_BACKEND)]
            verdicts[str(layers)] = {0: "fails both", 1: "passes the wider", 2: "passes both"}[sum(passes)]
            _tell(f"  half of {part} zero, layers {layers}: {(both[0] + both[1]).describe(SAME_BACKEND)}")
        record.controls[part] = verdicts


async def _run(folder: Path) -> Record:
    model = demo_model.DemoModel.from_manifest().path(ROOT / "build")
    record = Record()
    async with a_worker(WORKER, folder) as client:
        golden = await golden_by(client, model)
        await _measure(client, model, golden, "llama.cpp", record)
        await _break(client, model, golden, folder, record)
    async with a_worker(torch_worker(folder), folder) as client:
        await _measure(client, model, golden, "torch", record)
    return record


def main() -> int:
    """Measure and print the record."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="meshnet-self-test-") as folder:
        record = asyncio.run(_run(Path(folder)))
    report = {
        "ranges": record.ranges,
        "passed": record.passed,
        "rows": record.rows,
        "worst": record.worst,
        "controls": record.controls,
        "controls_seen": record.controls_seen,
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(report))
    return 0 if record.is_good() else 1


if __name__ == "__main__":
    raise SystemExit(main())

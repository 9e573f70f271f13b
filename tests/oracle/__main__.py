"""`make oracle`: what llama.cpp computes at every seam, against PyTorch in float32 from the same file.

One model is compared with its weights in every type that llama.cpp's quantiser writes without an importance matrix.
And what PyTorch computes from a folder of safetensors with the same weights, against what it computes from the file.

Progress and a table by layer go to standard error; the last line of standard output is one JSON object. Exit status 1
when a seam is beyond its tolerance, when nothing was compared, or when a control is not seen. See docs/parity.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.oracle.comparison import compare, compare_folder, quantisation_of
from tests.oracle.full_precision import write_full_precision
from tests.oracle.quantised import FILE_TYPES, write_quantised
from tests.oracle.record import OracleRecord
from tests.oracle.tolerances import SAFETENSORS, TOLERANCES
from tests.simulators.safetensors_folder import write_safetensors_folder
from tests.simulators.tiny_models import TINY_MODELS, WIDE_LLAMA, tiny_model

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "build/native/cpu/bin/meshnet-worker"
ARCHITECTURES = ("llama", "qwen2", "qwen3")


def _models(folder: Path, *, tiny_alone: bool) -> Iterator[tuple[str, Path, Path | None]]:
    """Each model as it is, in full precision, and with a folder of its weights; made as they are asked for."""
    paths = {
        f"tiny {one.architecture}": tiny_model(one, folder) for one in TINY_MODELS if one.architecture in ARCHITECTURES
    }
    if not tiny_alone:
        import demo_model

        paths["SmolLM2-135M"] = demo_model.DemoModel.from_manifest().path(ROOT / "build")
    for name, path in paths.items():
        yield f"{name} {quantisation_of(path)}", path, None
        full = write_full_precision(path, folder / "full.gguf")
        yield f"{name} f32", full, None
        full.unlink()
        safetensors = write_safetensors_folder(path, folder / "safetensors")
        yield f"{name} safetensors", path, safetensors
        shutil.rmtree(safetensors)
    wide = tiny_model(WIDE_LLAMA, Path(tempfile.mkdtemp(dir=folder)))
    for name, file_type in FILE_TYPES.items():
        packed = write_quantised(wide, folder / "packed.gguf", file_type)
        yield f"wide llama {name}", packed, None
        packed.unlink()


def _table(record: OracleRecord) -> Iterator[str]:
    yield f"  {'layer':>5}{'cosine':>12}{'error':>10}{'chain cosine':>14}{'chain error':>13}"
    for number, (layer, chain) in enumerate(zip(record.layers, record.chain, strict=True)):
        yield f"  {number:>5}{layer.cosine:>12.7f}{layer.error:>10.5f}{chain.cosine:>14.7f}{chain.error:>13.5f}"


def main() -> int:
    """Compare all models and print the record."""
    parser = argparse.ArgumentParser(prog="make oracle")
    parser.add_argument("--tiny", action="store_true", help="the generated models alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    records: dict[str, OracleRecord] = {}
    with tempfile.TemporaryDirectory(prefix="meshnet-oracle-") as folder:
        for name, path, safetensors in _models(Path(folder), tiny_alone=arguments.tiny):
            record = (
                asyncio.run(compare(WORKER, path, TOLERANCES[quantisation_of(path)], Path(folder)))
                if safetensors is None
                else compare_folder(path, safetensors, SAFETENSORS)
            )
            records[name] = record
            print(f"oracle {time.monotonic() - started:6.1f} s: {name}: {record.as_json()}", file=sys.stderr)
            print("\n".join(_table(record)), file=sys.stderr, flush=True)
    good = sum(record.is_good() for record in records.values())
    report = {name: record.as_json() for name, record in records.items()}
    seconds = round(time.monotonic() - started, 1)
    print(json.dumps({"models": report, "compared": len(records), "good": good, "seconds": seconds}))
    return 0 if records and good == len(records) else 1


if __name__ == "__main__":
    raise SystemExit(main())

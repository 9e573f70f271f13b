"""Model files whose figures are wrong: the worker refuses each by a code, or computes with it, and goes on."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from meshnet.errors import WorkerError
from meshnet.v1 import session_pb2, worker_pb2
from node_app.worker.client import WorkerClient
from tests.integration.native.native_routes import WORKER
from tests.simulators.hostile_gguf import fields_of
from tests.simulators.tiny_models import TINY_MODELS, TinyModel, tiny_model
from tests.simulators.worker_process import running_program

pytestmark = [pytest.mark.native, pytest.mark.timeout(120)]

LOAD_TIMEOUT_S = 30.0
FILES = 40
PROBE_ROWS = 2
# None so large that a file which loads takes more memory than a test may.
FIGURES = (0, 1, 2, 3, 5, 7, 9, 17, 513, 1025, 2**31, 2**32 - 1)


def with_wrong_figures(data: bytes, draw: random.Random) -> bytes:
    """The file with one to three of its numbers changed."""
    figures = [field for field in fields_of(data) if field.kind == "value" and field.size_bytes == 4]
    changed = bytearray(data)
    for field in draw.choices(figures, k=draw.choice((1, 1, 2, 3))):
        struct.pack_into("<I", changed, field.at, draw.choice(FIGURES))
    return bytes(changed)


@pytest.mark.parametrize("spec", TINY_MODELS, ids=lambda spec: spec.architecture)
async def test_wrong_figures_are_refused_and_the_worker_goes_on(spec: TinyModel, tmp_path: Path) -> None:
    sound = tiny_model(spec, tmp_path).read_bytes()
    draw = random.Random(spec.architecture)
    path = tmp_path / "hostile.gguf"
    verdicts: Counter[str] = Counter()
    async with running_program(WORKER, tmp_path / "w.sock") as program:
        client = WorkerClient(program.socket_path)
        for _ in range(FILES):
            path.write_bytes(with_wrong_figures(sound, draw))
            verdicts[await verdict_on(client, path)] += 1
        path.write_bytes(sound)
        control = await verdict_on(client, path)
        await client.close()
        assert program.process.returncode is None
    print({"architecture": spec.architecture, "files": verdicts.total(), "verdicts": dict(verdicts)})
    assert control == "loaded"
    assert not [one for one in verdicts if "worker_lost" in one or "worker_timeout" in one]
    assert verdicts["load_failed"] > 0


async def verdict_on(client: WorkerClient, path: Path) -> str:
    request = worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=str(path),
        layers=session_pb2.LayerRange(layer_begin=0, layer_end=0),
        context_length=64,
        max_sessions=1,
        threads=1,
        flash_attention=True,
        artifact_digest=bytes(32),
    )
    try:
        await client.load(request, LOAD_TIMEOUT_S)
    except WorkerError as error:
        return error.code
    verdict = "loaded"
    try:
        await client.probe(PROBE_ROWS, LOAD_TIMEOUT_S)
    except WorkerError as error:
        verdict = f"loaded, then {error.code}"
    await client.unload()
    return verdict

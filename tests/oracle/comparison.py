"""LlamaEngine against TorchEngine at every seam of one model, and the controls that must not pass."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from meshnet.artifact.gguf import layer_of, read_header
from node_app.reference_worker.torch.engine import TorchEngine
from tests.oracle.llama_seams import Rows, llama_seams
from tests.oracle.record import LAYER_LEFT_OUT, WRONG_ROPE_BASE, OracleRecord, Tolerances
from tests.oracle.seam_errors import SeamErrors
from tests.oracle.torch_seams import in_a_chain, load_layers, one_by_one

PROMPTS: Final = 3
# So that the logits of a prompt's rows stay below the 4 MiB that gRPC clients read.
PROMPT_ROWS: Final = 16
WRONG_ROPE_BASE_FACTOR: Final = 10.0


def quantisation_of(model: Path) -> str:
    """The type that most of the layers' matrices have."""
    types = [t.type.name for t in read_header(model).tensors if layer_of(t.name) is not None and len(t.shape) > 1]
    return max(sorted(set(types)), key=types.count)


async def compare(worker: Path, model: Path, tolerances: Tolerances, folder: Path) -> OracleRecord:
    """Compare one model; `folder` holds the worker's socket.

    Raises:
        TimeoutError, grpc.aio.AioRpcError: the worker did not do what it should.
        MeshnetError: TorchEngine refuses the model.
    """
    layers = load_layers(model)
    prompts = _prompts(layers[0].vocab_size)
    expected = await llama_seams(worker, model, len(layers), prompts, folder)
    wrong = load_layers(model, rope_base_factor=WRONG_ROPE_BASE_FACTOR)
    pairs = list(zip(prompts, expected, strict=True))
    return _compare(layers, wrong, pairs, OracleRecord(quantisation_of(model), tolerances))


def compare_folder(model: Path, folder: Path, tolerances: Tolerances) -> OracleRecord:
    """Compare a folder of safetensors with the GGUF file that it was made from, both with TorchEngine.

    Raises:
        MeshnetError: TorchEngine refuses one of them.
    """
    reference = load_layers(model)
    pairs = [(prompt, in_a_chain(reference, prompt)) for prompt in _prompts(reference[0].vocab_size)]
    wrong = load_layers(folder, rope_base_factor=WRONG_ROPE_BASE_FACTOR)
    return _compare(load_layers(folder), wrong, pairs, OracleRecord("f32 safetensors", tolerances))


def _compare(
    layers: list[TorchEngine],
    wrong: list[TorchEngine],
    pairs: list[tuple[list[int], list[Rows]]],
    record: OracleRecord,
) -> OracleRecord:
    """Fill `record` in; `pairs` are prompts and the rows that the other side gave at every seam."""
    record.layers = _errors((one_by_one(layers, prompt, rows), rows) for prompt, rows in pairs)
    record.chain = _errors((in_a_chain(layers, prompt), rows) for prompt, rows in pairs)
    skipped = len(layers) // 2
    record.controls[LAYER_LEFT_OUT] = _errors(
        (in_a_chain(layers, prompt, skipped=skipped), rows) for prompt, rows in pairs
    )
    record.controls[WRONG_ROPE_BASE] = _errors((in_a_chain(wrong, prompt), rows) for prompt, rows in pairs)
    return record


def _prompts(vocab_size: int) -> list[list[int]]:
    return [_prompt(number, vocab_size) for number in range(PROMPTS)]


def _prompt(number: int, vocab_size: int) -> list[int]:
    drawn = random.Random(f"oracle {number}")
    return [drawn.randrange(vocab_size) for _ in range(PROMPT_ROWS)]


def _errors(found_and_expected: Iterable[tuple[list[Rows], list[Rows]]]) -> list[SeamErrors]:
    seams: list[SeamErrors] = []
    for found, expected in found_and_expected:
        seams = seams or [SeamErrors() for _ in expected]
        for seam, left, right in zip(seams, found, expected, strict=True):
            seam.add(left, right)
    return seams

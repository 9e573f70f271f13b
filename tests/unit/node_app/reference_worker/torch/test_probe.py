"""Probes of a torch shard: what fits is computed, and everything else has a name."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from meshnet.errors import WorkerError
from meshnet.v1 import frame_pb2, session_pb2, worker_pb2
from tests.simulators.tiny_models import TINY_MODELS, tiny_model

pytest.importorskip("torch", reason="no PyTorch: run packaging/torch_extra.py")

from node_app.reference_worker.torch.shard import TorchShard, load_shard
from node_app.reference_worker.torch.steps import run_probe

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT_LENGTH = 32
ROWS = 3


def a_shard(folder: Path, layer_begin: int, layer_end: int) -> TorchShard:
    (spec,) = (one for one in TINY_MODELS if one.architecture == "llama")
    layers = session_pb2.LayerRange(layer_begin=layer_begin, layer_end=layer_end)
    request = worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=str(tiny_model(spec, folder)),
        layers=layers,
        context_length=CONTEXT_LENGTH,
        threads=1,
    )
    return load_shard(request)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> TorchShard:
    return a_shard(tmp_path_factory.mktemp("head"), 0, 1)


@pytest.fixture(scope="module")
def middle(tmp_path_factory: pytest.TempPathFactory) -> TorchShard:
    return a_shard(tmp_path_factory.mktemp("middle"), 1, 2)


def rows_of(rows: int, width: int) -> frame_pb2.Tensor:
    values = [0.25 * (at % 7) - 0.5 for at in range(rows * width)]
    return frame_pb2.Tensor(
        name="hidden",
        dtype=frame_pb2.DTYPE_F32,
        shape=[rows, width],
        codec=frame_pb2.CODEC_RAW,
        data=struct.pack(f"<{len(values)}f", *values),
    )


@pytest.mark.parametrize("ids", [0, ROWS])
@pytest.mark.parametrize("step_rows", [0, 1, 2])
def test_rows_that_fit_are_computed(middle: TorchShard, ids: int, step_rows: int) -> None:
    request = worker_pb2.ProbeRequest(token_ids=[1] * ids, tensors=[rows_of(ROWS, middle.width)], step_rows=step_rows)
    (output,) = run_probe(middle, request)
    assert (list(output.shape), len(output.data)) == ([ROWS, middle.width], 4 * ROWS * middle.width)


def test_ids_alone_are_computed(head: TorchShard, middle: TorchShard) -> None:
    for shard in (head, middle):
        for ids in (0, 1, ROWS, CONTEXT_LENGTH):
            (output,) = run_probe(shard, worker_pb2.ProbeRequest(token_ids=[1] * ids))
            assert list(output.shape) == [max(1, ids), shard.width]


def refused(shard: TorchShard, request: worker_pb2.ProbeRequest) -> str:
    with pytest.raises(WorkerError) as caught:
        run_probe(shard, request)
    return caught.value.code


@pytest.mark.parametrize("ids", [1, ROWS - 1, ROWS + 1])
def test_token_ids_for_some_rows_only_are_refused(head: TorchShard, middle: TorchShard, ids: int) -> None:
    for shard in (head, middle):
        request = worker_pb2.ProbeRequest(token_ids=[1] * ids, tensors=[rows_of(ROWS, shard.width)])
        assert refused(shard, request) == "wrong_shape"


def test_a_head_takes_rows_for_no_ids(head: TorchShard) -> None:
    assert refused(head, worker_pb2.ProbeRequest(tensors=[rows_of(ROWS, head.width)])) == "wrong_shape"


def test_a_token_outside_the_vocabulary_is_refused(head: TorchShard) -> None:
    assert refused(head, worker_pb2.ProbeRequest(token_ids=[head.engine.vocab_size])) == "bad_token_id"


def test_more_rows_than_the_context_has_are_refused(head: TorchShard, middle: TorchShard) -> None:
    for shard in (head, middle):
        assert refused(shard, worker_pb2.ProbeRequest(token_ids=[1] * (CONTEXT_LENGTH + 1))) == "wrong_shape"
    longer = rows_of(CONTEXT_LENGTH + 1, middle.width)
    assert refused(middle, worker_pb2.ProbeRequest(tensors=[longer])) == "wrong_shape"


@pytest.mark.parametrize("shape", [[], [ROWS], [ROWS, 1, 1], [0, 1], [1, ROWS]])
def test_rows_of_another_shape_are_refused(middle: TorchShard, shape: list[int]) -> None:
    tensor = rows_of(ROWS, middle.width)
    tensor.shape[:] = shape
    assert refused(middle, worker_pb2.ProbeRequest(tensors=[tensor])) == "wrong_shape"


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("dtype", frame_pb2.DTYPE_BF16, "wrong_dtype"),
        ("dtype", frame_pb2.DTYPE_UNSPECIFIED, "wrong_dtype"),
        ("codec", frame_pb2.CODEC_BF16, "wrong_dtype"),
        ("data", b"", "wrong_size"),
        ("data", b"four", "wrong_size"),
    ],
)
def test_rows_of_another_form_are_refused(middle: TorchShard, field: str, value: object, code: str) -> None:
    tensor = rows_of(ROWS, middle.width)
    setattr(tensor, field, value)
    assert refused(middle, worker_pb2.ProbeRequest(tensors=[tensor])) == code


def test_values_that_are_not_finite_are_refused(middle: TorchShard) -> None:
    tensor = rows_of(1, middle.width)
    tensor.data = struct.pack(f"<{middle.width}f", *[float("nan")] * middle.width)
    assert refused(middle, worker_pb2.ProbeRequest(tensors=[tensor])) == "not_finite"

"""TorchEngine: cuts, caches and refusals. What it computes is compared with llama.cpp in tests/oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.artifact.gguf import layer_of, read_header
from meshnet.errors import ArtifactError, WorkerError
from tests.simulators.tiny_models import tiny_model
from tests.simulators.tiny_models.weights import TinyWriter

torch = pytest.importorskip("torch", reason="no PyTorch: run packaging/torch_extra.py")

from node_app.reference_worker.torch.engine import TorchEngine  # noqa: E402 - torch comes first
from tests.unit.node_app.reference_worker.torch.engine_rows import (  # noqa: E402
    BY_NAME,
    CUTS,
    LAYERS,
    TOKENS,
    chained_logits,
    close,
    whole_logits,
)


@pytest.mark.parametrize("cuts", CUTS)
def test_a_chain_of_ranges_computes_what_the_whole_does(model: Path, cuts: tuple[int, ...]) -> None:
    assert close(chained_logits([model], cuts), whole_logits(model))


def test_one_row_after_a_prefill_computes_what_the_whole_prompt_does(model: Path) -> None:
    engine = TorchEngine.load(model)
    sequence = engine.open(len(TOKENS))
    rows = [sequence.step_tokens(TOKENS[:5]), *(sequence.step_tokens([token]) for token in TOKENS[5:])]
    assert [len(row) for row in rows] == [5, 1, 1, 1, 1, 1, 1]
    assert close(engine.logits(torch.cat(rows)), whole_logits(model))


def test_truncated_rows_leave_nothing(model: Path) -> None:
    engine = TorchEngine.load(model)
    sequence = engine.open(len(TOKENS) + 4)
    sequence.step_tokens([*TOKENS[:3], 7, 7, 7])
    sequence.truncate(3)
    rows = sequence.step_tokens(TOKENS[3:])
    assert sequence.length == len(TOKENS)
    assert close(engine.logits(rows), whole_logits(model)[3:])
    with pytest.raises(ValueError, match="cannot truncate"):
        sequence.truncate(len(TOKENS) + 1)


def test_another_history_gives_other_rows(model: Path) -> None:
    engine = TorchEngine.load(model)
    changed = engine.logits(engine.open(len(TOKENS)).step_tokens([TOKENS[0] + 1, *TOKENS[1:]]))
    assert not close(changed[-1:], whole_logits(model)[-1:])


def test_sequences_share_nothing(model: Path) -> None:
    engine = TorchEngine.load(model)
    first, second = engine.open(len(TOKENS)), engine.open(len(TOKENS))
    first.step_tokens(TOKENS[:4])
    second.step_tokens([9, 9, 9, 9, 9])
    assert close(engine.logits(first.step_tokens(TOKENS[4:])), whole_logits(model)[4:])


def test_only_owned_tensors_are_read(model: Path) -> None:
    tensors = read_header(model).tensors

    def size_of(layers: set[int], *names: str) -> int:
        held = {"rope_freqs.weight", *names}
        return sum(one.size_bytes for one in tensors if one.name in held or layer_of(one.name) in layers)

    tail = ["output_norm.weight", "output.weight"]
    if not any(tensor.name == "output.weight" for tensor in tensors):
        tail.append("token_embd.weight")
    assert TorchEngine.load(model, 1, 3).bytes_read == size_of({1, 2})
    assert TorchEngine.load(model, 0, 1).bytes_read == size_of({0}, "token_embd.weight")
    assert TorchEngine.load(model, 3).bytes_read == size_of({3}, *tail)
    assert TorchEngine.load(model).bytes_read == sum(tensor.size_bytes for tensor in tensors)


def test_progress_is_told_layer_by_layer_and_may_end_the_load(model: Path) -> None:
    told: list[float] = []
    TorchEngine.load(model, 0, LAYERS, told.append)
    assert told == [0.25, 0.5, 0.75, 1.0]

    def end(_fraction: float) -> None:
        raise WorkerError("cancelled", "Given up", "nobody waits")

    with pytest.raises(WorkerError, match="nobody waits"):
        TorchEngine.load(model, 1, 3, end)


@pytest.mark.parametrize("layers", [(0, 5), (2, 2), (3, 1), (-1, 2)])
def test_layers_that_are_not_there_are_refused(model: Path, layers: tuple[int, int]) -> None:
    with pytest.raises(WorkerError) as refused:
        TorchEngine.load(model, *layers)
    assert refused.value.code == "layers_out_of_range"


@pytest.mark.parametrize("ids", [[160], [-1], [3, 2**31]])
def test_ids_outside_the_vocabulary_are_refused_and_change_nothing(model: Path, ids: list[int]) -> None:
    sequence = TorchEngine.load(model).open(8)
    with pytest.raises(WorkerError) as refused:
        sequence.step_tokens(ids)
    assert (refused.value.code, sequence.length) == ("bad_token_id", 0)


def test_wrong_rows_are_refused_and_change_nothing(model: Path) -> None:
    tail = TorchEngine.load(model, 2, LAYERS)
    sequence, width = tail.open(4), tail.facts.width
    poisoned = torch.zeros(1, width)
    poisoned[0, 3] = torch.nan
    cases = [
        ("wrong_shape", torch.zeros(1, width + 1)),
        ("wrong_shape", torch.zeros(0, width)),
        ("not_finite", poisoned),
        ("kv_exhausted", torch.ones(5, width)),
    ]
    for code, rows in cases:
        with pytest.raises(WorkerError) as refused:
            sequence.step_rows(rows)
        assert (refused.value.code, sequence.length) == (code, 0)


@pytest.mark.parametrize("name", ["qwen3moe", "gemma3", "deepseek4"])
def test_other_architectures_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=name) as refused:
        TorchEngine.load(tiny_model(BY_NAME[name], tmp_path))
    assert refused.value.code == "unsupported_architecture"


def altered_llama(folder: Path, **numbers: float) -> Path:
    """A llama whose metadata say something more."""
    path = folder / "altered.gguf"
    writer = TinyWriter(path, "llama", 1)
    writer.numbers(**numbers)
    BY_NAME["llama"].write(writer, 2)
    writer.finish()
    return path


OTHER_GRAPHS = [
    ("expert_count", 8),
    ("attention.sliding_window", 128),
    ("attention.scale", 0.5),
    ("logit_scale", 2.0),
    ("residual_scale", 2.0),
    ("attention.causal", False),
    ("rope.scale_linear", 2.0),
    ("rope.scaling.attn_factor", 0.0),
    ("rope.scaling.attn_factor", 0.5),
    ("rope.scaling.factor", 4.0),
    ("rope.scaling.factor", float("nan")),
]


@pytest.mark.parametrize(("name", "value"), OTHER_GRAPHS)
def test_metadata_of_another_graph_are_refused(tmp_path: Path, name: str, value: float) -> None:
    with pytest.raises(WorkerError, match=name) as refused:
        TorchEngine.load(altered_llama(tmp_path, **{name.replace(".", "__"): value}))
    assert refused.value.code == "unsupported_architecture"


def test_metadata_that_scale_nothing_are_not_another_graph(tmp_path: Path) -> None:
    said = {"rope__scaling__factor": 1.0, "rope__scale_linear": 0.0, "rope__scaling__attn_factor": 1.0}
    engine = TorchEngine.load(altered_llama(tmp_path, attention__causal=True, **said))
    assert engine.open(1).step_tokens([3]).shape == (1, engine.facts.width)


def test_a_tensor_that_the_graph_does_not_use_is_refused_where_it_is_owned(tmp_path: Path) -> None:
    path = tmp_path / "biased.gguf"
    writer = TinyWriter(path, "llama", 1)
    BY_NAME["llama"].write(writer, 2)
    writer.vector("blk.1.attn_q", 128)
    writer.finish()
    assert TorchEngine.load(path, 0, 1).bytes_read
    with pytest.raises(WorkerError, match=r"blk\.1\.attn_q\.bias"):
        TorchEngine.load(path, 1, 2)


def test_a_tensor_of_the_whole_model_that_no_graph_uses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "biased.gguf"
    writer = TinyWriter(path, "llama", 1)
    BY_NAME["llama"].write(writer, 2)
    writer.vector("output", 160)
    writer.finish()
    with pytest.raises(WorkerError, match=r"output\.bias"):
        TorchEngine.load(path, 0, 1)


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "narrow.gguf"
    writer = TinyWriter(path, "qwen2", 1)
    BY_NAME["llama"].write(writer, 2)
    writer.finish()
    with pytest.raises(ArtifactError, match=r"attn_q\.bias") as refused:
        TorchEngine.load(path)
    assert refused.value.code == "bad_tensor"


def test_a_file_cut_short_is_refused(model: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(model.read_bytes()[:-64])
    with pytest.raises(ArtifactError) as refused:
        TorchEngine.load(short)
    assert refused.value.code == "truncated"

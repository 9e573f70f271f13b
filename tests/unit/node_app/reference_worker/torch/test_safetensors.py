"""Folders of safetensors: the same rows as from the GGUF file with the same weights, cuts, caches and refusals."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshnet.errors import ArtifactError, MeshnetError, WorkerError
from tests.simulators.tiny_models import tiny_model
from tests.simulators.tiny_models.transformers import ATTENTION

torch = pytest.importorskip("torch", reason="no PyTorch: run packaging/torch_extra.py")
pytest.importorskip("transformers", reason="no transformers: run packaging/torch_extra.py")

from safetensors.torch import load_file, save_file  # noqa: E402 - torch comes first

from node_app.reference_worker.torch.engine import TorchEngine  # noqa: E402
from tests.simulators.safetensors_folder import write_safetensors_folder  # noqa: E402
from tests.unit.node_app.reference_worker.torch.engine_rows import (  # noqa: E402
    BY_NAME,
    CUTS,
    LAYERS,
    TOKENS,
    chained_logits,
    close,
    whole_logits,
)

# So that layers lie in files of their own, and some in two.
FILE_BYTES = 50_000


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_safetensors_folder(model, tmp_path_factory.mktemp("folder"), file_bytes=FILE_BYTES)
    assert len(list(made.glob("*.safetensors"))) > LAYERS
    return made


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A folder that a test may change."""
    return write_safetensors_folder(tiny_model(BY_NAME["llama"], tmp_path), tmp_path / "folder")


def test_a_folder_computes_what_the_gguf_file_of_its_weights_does(model: Path, folder: Path) -> None:
    assert close(whole_logits(folder), whole_logits(model))


def test_another_rope_base_is_another_model(model: Path, folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    change(tmp_path, lambda config: config["rope_parameters"].update(rope_theta=1.0))
    assert not close(whole_logits(tmp_path), whole_logits(model))


@pytest.mark.parametrize("cuts", CUTS)
def test_a_chain_of_ranges_computes_what_the_whole_does(model: Path, folder: Path, cuts: tuple[int, ...]) -> None:
    # Every second range is of the other kind of file: the seam between them is the same.
    assert close(chained_logits([folder, model], cuts), whole_logits(folder))


def test_one_row_after_a_prefill_computes_what_the_whole_prompt_does(folder: Path) -> None:
    engine = TorchEngine.load(folder)
    sequence = engine.open(len(TOKENS))
    # A second chunk sees the first one's rows and its own; then one row a step.
    parts = [TOKENS[:4], TOKENS[4:7], *([token] for token in TOKENS[7:])]
    rows = [sequence.step_tokens(part) for part in parts]
    assert [len(row) for row in rows] == [4, 3, 1, 1, 1, 1]
    assert close(engine.logits(torch.cat(rows)), whole_logits(folder))


def test_truncated_rows_leave_nothing(folder: Path) -> None:
    engine = TorchEngine.load(folder)
    sequence = engine.open(len(TOKENS) + 4)
    sequence.step_tokens([*TOKENS[:3], 7, 7, 7])
    sequence.truncate(3)
    rows = sequence.step_tokens(TOKENS[3:])
    assert sequence.length == len(TOKENS)
    assert close(engine.logits(rows), whole_logits(folder)[3:])
    sequence.truncate(0)
    assert close(engine.logits(sequence.step_tokens(TOKENS)), whole_logits(folder))


def test_sequences_share_nothing_and_another_history_gives_other_rows(folder: Path) -> None:
    engine = TorchEngine.load(folder)
    first, second = engine.open(len(TOKENS)), engine.open(len(TOKENS))
    first.step_tokens(TOKENS[:4])
    second.step_tokens([9, 9, 9, 9])
    mine, other = first.step_tokens(TOKENS[4:]), second.step_tokens(TOKENS[4:])
    assert close(engine.logits(mine), whole_logits(folder)[4:])
    assert not close(engine.logits(other), engine.logits(mine))


def test_a_refused_step_changes_nothing(folder: Path) -> None:
    sequence = TorchEngine.load(folder, 2).open(4)
    for code, rows in (("wrong_shape", torch.zeros(1, 3)), ("kv_exhausted", torch.ones(5, 64))):
        with pytest.raises(WorkerError) as refused:
            sequence.step_rows(rows)
        assert (refused.value.code, sequence.length) == (code, 0)
    with pytest.raises(WorkerError) as refused:
        TorchEngine.load(folder, 0, 1).open(8).step_tokens([160])
    assert refused.value.code == "bad_token_id"


def test_only_owned_tensors_are_read(folder: Path) -> None:
    sizes = {name: tensor.nbytes for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}

    def size_of(layers: set[int], *names: str) -> int:
        prefixes = tuple(f"model.layers.{layer}." for layer in layers)
        return sum(size for name, size in sizes.items() if name in names or (prefixes and name.startswith(prefixes)))

    head = "model.embed_tokens.weight"
    tail = ("model.norm.weight", "lm_head.weight" if "lm_head.weight" in sizes else head)
    assert TorchEngine.load(folder, 1, 3).bytes_read == size_of({1, 2})
    assert TorchEngine.load(folder, 0, 1).bytes_read == size_of({0}, head)
    assert TorchEngine.load(folder, 3).bytes_read == size_of({3}, *tail)
    assert TorchEngine.load(folder).bytes_read == TorchEngine.load(folder).weights_bytes == sum(sizes.values())


def test_progress_is_told_layer_by_layer(folder: Path) -> None:
    told: list[float] = []
    TorchEngine.load(folder, 1, LAYERS, told.append)
    assert told == [1 / 3, 2 / 3, 1.0]


def test_half_precision_is_read_as_what_it_says(model: Path, folder: Path, tmp_path: Path) -> None:
    halved = write_safetensors_folder(model, tmp_path / "half", dtype=torch.bfloat16)
    rounded = tmp_path / "rounded"
    rounded.mkdir()
    (rounded / "config.json").write_bytes((halved / "config.json").read_bytes())
    for file in halved.glob("*.safetensors"):
        save_file({name: tensor.float() for name, tensor in load_file(file).items()}, rounded / file.name)
    assert TorchEngine.load(halved).bytes_read * 2 == TorchEngine.load(rounded).bytes_read
    assert close(whole_logits(halved), whole_logits(rounded))
    assert not close(whole_logits(halved), whole_logits(folder))


# --- what is refused ---


def change(folder: Path, of: Callable[[dict[str, Any]], object]) -> None:
    """Change a folder's configuration."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    of(config)
    path.write_text(json.dumps(config))


def retensor(folder: Path, of: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change a folder's only file of tensors."""
    (path,) = folder.glob("*.safetensors")
    tensors = load_file(path)
    of(tensors)
    save_file(tensors, path)


ROPE_PAIRS = ATTENTION.head_size // 2
K = "model.layers.1.self_attn.k_proj.weight"
CONFIGURATIONS: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("unsupported_architecture", lambda config: config.update(model_type="mistral")),
    ("unsupported_architecture", lambda config: config.update(quantization_config={"quant_method": "fp8"})),
    (
        "unsupported_architecture",
        lambda config: config.update(
            model_type="qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1
        ),
    ),
    ("unsupported_architecture", lambda config: config["rope_parameters"].update(rope_type="dynamic", factor=2.0)),
    ("unsupported_architecture", lambda config: config["rope_parameters"].update(rope_type="yarn", factor=2.0)),
    ("unsupported_architecture", lambda config: config["rope_parameters"].update(long_factor=[9.0] * ROPE_PAIRS)),
    (
        "unsupported_architecture",
        lambda config: config.update(rope_scaling={"type": "dynamic", "factor": 2.0}, rope_parameters=None),
    ),
    ("bad_metadata", lambda config: config.update(model_type="nothing_known", auto_map={"AutoConfig": "evil.Config"})),
    ("bad_metadata", lambda config: config.update(num_attention_heads="four")),
    ("bad_metadata", lambda config: config.update(num_attention_heads=0)),
    ("bad_metadata", lambda config: config.update(num_attention_heads=0, head_dim=None)),
    ("bad_metadata", lambda config: config.update(num_key_value_heads=0)),
    ("bad_metadata", lambda config: config.update(num_attention_heads=4, num_key_value_heads=3)),
    ("bad_metadata", lambda config: config.update(num_hidden_layers=-1)),
    ("bad_metadata", lambda config: config.update(hidden_size=-64)),
    ("bad_metadata", lambda config: config.update(max_position_embeddings=0)),
    ("bad_metadata", lambda config: config.update(pad_token_id=10**6)),
    ("bad_metadata", lambda config: config.update(hidden_act="none")),
    ("bad_metadata", lambda config: config["rope_parameters"].update(rope_theta="high")),
    ("bad_metadata", lambda config: config["rope_parameters"].update(short_factor=[], long_factor=[])),
    (
        "bad_metadata",
        lambda config: config.update(
            rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0, "partial_rotary_factor": 0.5}
        ),
    ),
    ("bad_metadata", lambda config: config.update(num_hidden_layers=2**31 - 1)),
    ("bad_metadata", lambda config: config.update(model_type="qwen3", num_hidden_layers=2**31 - 1)),
    ("bad_metadata", lambda config: config.update(num_hidden_layers=10**400)),
    ("bad_metadata", lambda config: config.update(num_hidden_layers=1e300)),
    ("bad_metadata", lambda config: config.update(num_hidden_layers=4.0)),
    ("bad_metadata", lambda config: config.update(num_hidden_layers=True)),
    ("bad_metadata", lambda config: config.update(head_dim=2**31)),
    ("bad_metadata", lambda config: config.update(head_dim=-16)),
    ("bad_metadata", lambda config: config.update(head_dim=16.0)),
    ("bad_metadata", lambda config: config.update(hidden_size=2**31 - 1, num_attention_heads=1, head_dim=None)),
    ("bad_metadata", lambda config: config.update(vocab_size=2**31 - 1)),
    ("bad_metadata", lambda config: config.update(note="x" * 2**20)),
    ("bad_tensor", lambda config: config.update(num_key_value_heads=1)),
    ("bad_tensor", lambda config: config.update(vocab_size=161)),
    ("bad_tensor", lambda config: config.update(num_hidden_layers=5)),
    ("unsupported_architecture", lambda config: config.update(num_hidden_layers=3)),
]


@pytest.mark.parametrize(("code", "of"), CONFIGURATIONS, ids=[f"{n}-{one[0]}" for n, one in enumerate(CONFIGURATIONS)])
def test_configurations_of_other_models_are_refused(
    llama: Path, code: str, of: Callable[[dict[str, Any]], object]
) -> None:
    assert TorchEngine.load(llama).bytes_read  # the control
    (llama / "evil.py").write_text("raise SystemExit('code of the folder was run')")
    change(llama, of)
    with pytest.raises(MeshnetError) as refused:
        TorchEngine.load(llama)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ],
    ids=lambda rope: rope["rope_type"],
)
def test_sequences_share_no_rope_that_one_of_them_changes(llama: Path, rope: dict[str, Any]) -> None:
    change(llama, lambda config: config.update(rope_parameters={"rope_theta": 1e4, **rope}, max_position_embeddings=8))
    engine = TorchEngine.load(llama)
    first, other = engine.open(len(TOKENS)), engine.open(len(TOKENS))
    rows = [first.step_tokens(TOKENS[:4])]
    # Beyond the context that the model was trained with: here other ropes change.
    other.step_tokens(TOKENS)
    rows.append(first.step_tokens(TOKENS[4:7]))
    assert close(engine.logits(torch.cat(rows)), whole_logits(llama)[:7])


@pytest.mark.parametrize(
    ("code", "named", "of"),
    [
        ("bad_tensor", K, lambda tensors: tensors.pop(K)),
        ("bad_tensor", K, lambda tensors: tensors.update({K: torch.zeros(3, 3)})),
        ("unsupported_tensor_type", K, lambda tensors: tensors.update({K: tensors[K].to(torch.int8)})),
        (
            "unsupported_architecture",
            "k_norm",
            lambda tensors: tensors.update({K.replace("proj", "norm"): torch.zeros(3)}),
        ),
        ("unsupported_architecture", "lm_head", lambda tensors: tensors.update({"lm_head.bias": torch.zeros(160)})),
    ],
)
def test_tensors_that_are_not_the_graphs_are_refused_by_name(
    llama: Path, code: str, named: str, of: Callable[[dict[str, torch.Tensor]], object]
) -> None:
    retensor(llama, of)
    with pytest.raises(MeshnetError, match=named) as refused:
        TorchEngine.load(llama)
    assert refused.value.code == code


def test_a_tensor_in_two_files_is_refused(llama: Path) -> None:
    (path,) = llama.glob("*.safetensors")
    (llama / "again.safetensors").write_bytes(path.read_bytes())
    with pytest.raises(ArtifactError, match="in two files"):
        TorchEngine.load(llama)


def test_folders_that_hold_no_model_are_refused(llama: Path, tmp_path: Path) -> None:
    (path,) = llama.glob("*.safetensors")
    whole, config = path.read_bytes(), (llama / "config.json").read_bytes()
    codes = []
    for data, words in ((whole[:-64], config), (b"", config), (b"\xff" * 64, config), (None, config), (whole, b"{")):
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        (llama / "config.json").write_bytes(words)
        with pytest.raises(ArtifactError) as refused:
            TorchEngine.load(llama)
        codes.append(refused.value.code)
    assert codes == [*["unreadable"] * 4, "bad_metadata"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ArtifactError):
        TorchEngine.load(empty)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "lost link"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(llama: Path, name: str, kind: str) -> None:
    path = llama / name
    if kind == "lost link" or name == "config.json":
        path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("absent")
    with pytest.raises(ArtifactError, match="no regular file"):
        TorchEngine.load(llama)


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b"null", b"[]", b'"text"', b"\xff\xfe", b"1" * 5000, b'{"a": ' + b'{"a": ' * 50_000],
    ids=lambda data: str(data[:6]),
)
def test_a_configuration_that_is_no_object_is_refused(llama: Path, data: bytes) -> None:
    (llama / "config.json").write_bytes(data)
    with pytest.raises(ArtifactError) as refused:
        TorchEngine.load(llama)
    assert refused.value.code == "bad_metadata"


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def with_header(header: bytes, data: bytes, *, length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


HEADERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "overlapping": lambda header: header[K].update(data_offsets=[0, header[K]["data_offsets"][1]]),
    "beyond the end": lambda header: header[K].update(data_offsets=[2**40, 2**40 + 4]),
    "backwards": lambda header: header[K].update(data_offsets=header[K]["data_offsets"][::-1]),
    "another size": lambda header: header[K].update(shape=[2**40, 2**40]),
    "no elements": lambda header: header[K].update(shape=[0, 64]),
    "no known type": lambda header: header[K].update(dtype="F7"),
    "negative": lambda header: header[K].update(shape=[-1, 64]),
    "no place": lambda header: header[K].pop("data_offsets"),
}


@pytest.mark.parametrize("wrong", HEADERS)
def test_headers_of_tensors_that_cannot_be_are_refused(llama: Path, wrong: str) -> None:
    (path,) = llama.glob("*.safetensors")
    header, data = header_of(path)
    HEADERS[wrong](header)
    path.write_bytes(with_header(json.dumps(header).encode(), data))
    with pytest.raises(ArtifactError) as refused:
        TorchEngine.load(llama)
    assert refused.value.code in {"unreadable", "bad_tensor"}
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("length", [2**63, 2**40, 2**24 + 1, 2**24 - 1, 1])
def test_header_lengths_that_cannot_be_are_refused(llama: Path, length: int) -> None:
    (path,) = llama.glob("*.safetensors")
    header, data = header_of(path)
    path.write_bytes(with_header(json.dumps(header).encode(), data, length=length))
    os.truncate(path, 2**25)
    with pytest.raises(ArtifactError) as refused:
        TorchEngine.load(llama)
    assert refused.value.code == "unreadable"


def test_no_more_tensors_are_named_than_any_model_has(llama: Path) -> None:
    places = {f"{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for number in range(70_000)}
    for name in ("a", "b"):
        header = json.dumps({name + key: place for key, place in places.items()}).encode()
        (llama / f"{name}.safetensors").write_bytes(with_header(header, b""))
    with pytest.raises(ArtifactError, match="131072"):
        TorchEngine.load(llama)


def test_an_index_is_not_believed(llama: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.safetensors"
    (path,) = llama.glob("*.safetensors")
    secret.write_bytes(path.read_bytes())
    path.unlink()
    (llama / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {K: "../secret.safetensors"}}))
    with pytest.raises(ArtifactError, match="no tensors"):
        TorchEngine.load(llama)


def test_what_a_configuration_names_is_neither_run_nor_fetched(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise AssertionError("the network was asked")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(f"socket.socket.{name}", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    (llama / "evil.py").write_text("raise SystemExit('code of the folder was run')")
    names = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoTokenizer")
    change(
        llama,
        lambda config: config.update(
            auto_map=dict.fromkeys(names, "someone/elses--evil.Evil"),
            trust_remote_code=True,
            attn_implementation="someone/kernel",
            _attn_implementation="someone/kernel",
            use_kernels=True,
            architectures=["Evil"],
            base_model_name_or_path="someone/else",
            _name_or_path="someone/else",
        ),
    )
    try:
        assert TorchEngine.load(llama).bytes_read
    except (ArtifactError, WorkerError) as refused:
        print("refused:", refused)


@pytest.mark.parametrize("layers", [(0, 5), (2, 2), (3, 1), (-1, 2)])
def test_layers_that_are_not_there_are_refused(llama: Path, layers: tuple[int, int]) -> None:
    with pytest.raises(WorkerError) as refused:
        TorchEngine.load(llama, *layers)
    assert refused.value.code == "layers_out_of_range"


def test_without_the_extra_folders_are_refused_and_files_are_not(
    model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "node_app.reference_worker.torch.safetensors_range", None)
    assert TorchEngine.load(model).bytes_read
    with pytest.raises(WorkerError, match=r"\[transformers\]") as refused:
        TorchEngine.load(folder)
    assert refused.value.code == "missing_extra"

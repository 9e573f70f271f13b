"""A layer range from a folder of safetensors, computed by the modules of transformers (extra [transformers]).

Invariants: transformers makes the modules for a model with as many layers as the range has. Of the layers, only those
of the range are read. If they have a tensor that no module takes, that is an error. No code from the folder is run.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import torch

# Only local folders are used. Without this setting the library asks its hub for newer files.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import transformers
from transformers import AutoConfig, AutoModel
from transformers.cache_utils import Cache as LayerCaches
from transformers.cache_utils import DynamicLayer

from meshnet.artifact.gguf.limits import MAX_LAYERS
from meshnet.errors import ArtifactError
from meshnet.printable import printable
from node_app.reference_worker.torch.layer_range import ignore_progress
from node_app.reference_worker.torch.model_facts import GRAPHS, refuse_range, unsupported
from node_app.reference_worker.torch.safetensors_weights import SafetensorsWeights, bad_tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from transformers import PreTrainedConfig, PreTrainedModel

    from node_app.reference_worker.sessions.program import Progress
    from node_app.reference_worker.torch.layer_range import Cache

_F32_BYTES: Final = 4
_EMBEDDINGS, _NORM, _HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
_OF_THE_MODEL: Final = {_EMBEDDINGS, _NORM, _HEAD}
# Ropes with the same frequencies at every position. The library changes the others in a module that all sequences
# share, while the caches hold rows that were rotated with the old frequencies.
_STEADY_ROPES: Final = {"default", "linear", "llama3"}
_LARGEST_SIZE: Final = 2**31 - 1
# Upper limits of the sizes. The library allocates layers and rope frequencies before it reads a tensor.
_SIZES: Final = {
    "num_hidden_layers": MAX_LAYERS,
    "hidden_size": 2**20,
    "num_attention_heads": 2**16,
    "num_key_value_heads": 2**16,
    "max_position_embeddings": _LARGEST_SIZE,
    "vocab_size": 2**24,
}
_LARGEST_HEAD: Final = 2**14
_CONFIG_BYTES_MAX: Final = 1024 * 1024
_LAYER: Final = re.compile(r"model\.layers\.([0-9]{1,9})\.")


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """The `SharedFacts` of the whole model, from config.json."""

    architecture: str
    n_layers: int
    width: int
    context_length: int


class SafetensorsRange:
    """A `LayerRange` that is loaded from a folder of safetensors."""

    def __init__(
        self,
        weights: SafetensorsWeights,
        config: PreTrainedConfig,
        layer_begin: int,
        layer_end: int,
        progress: Progress = ignore_progress,
    ) -> None:
        refuse_range(layer_begin, layer_end, config.num_hidden_layers)
        self.facts = FolderFacts(
            architecture=config.model_type,
            n_layers=config.num_hidden_layers,
            width=config.hidden_size,
            context_length=config.max_position_embeddings,
        )
        self.layer_begin = layer_begin
        self.layer_end = layer_end
        self.libraries = f"torch {torch.__version__} transformers {transformers.__version__}"
        self.vocab_size = config.vocab_size
        _refuse_foreign(weights, self.facts.n_layers)
        self._model = _empty_model(config, layer_begin, layer_end)
        self._model.layers.load_state_dict(self._take_layers(weights, progress), strict=True, assign=True)
        embeddings = (self.vocab_size, self.facts.width)
        self._embeddings = weights.take(_EMBEDDINGS, embeddings) if layer_begin == 0 else None
        self._head: torch.Tensor | None = None
        self._norm = self._model.norm
        # The final norm belongs to the output head; a range returns its last layer's rows without it.
        self._model.norm = torch.nn.Identity()
        if layer_end == self.facts.n_layers:
            norm = {"weight": weights.take(_NORM, tuple(self._norm.weight.shape))}
            self._norm.load_state_dict(norm, strict=True, assign=True)
            self._head = self._take_head(weights, config, embeddings)
        self.bytes_read = weights.bytes_read
        self.weights_bytes = weights.elements_read * _F32_BYTES
        kept = config.num_key_value_heads * _head_size(config)
        self.cell_bytes = 2 * (layer_end - layer_begin) * kept * _F32_BYTES

    @classmethod
    def load(
        cls, folder: Path, layer_begin: int, layer_end: int | None, progress: Progress = ignore_progress
    ) -> SafetensorsRange:
        """Load a range; if `layer_end` is None, it ends with the model's last layer.

        Raises:
            WorkerError: `unsupported_architecture` or `layers_out_of_range`.
            ArtifactError: the folder's files are damaged or unusable.
        """
        config = read_config(folder)
        end = config.num_hidden_layers if layer_end is None else layer_end
        return cls(SafetensorsWeights(folder), config, layer_begin, end, progress)

    def new_cache(self, cells: int) -> LayerCaches:
        """Return an empty KV cache for `cells` rows."""
        return LayerCaches(layers=[_LayerCells(cells) for _ in range(self.layer_begin, self.layer_end)])

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Return the embeddings [rows, width] of token ids [rows].

        Raises:
            ValueError: the range does not have layer 0.
        """
        if self._embeddings is None:
            raise ValueError("this range takes hidden rows")
        return self._embeddings[token_ids]

    def run(self, hidden: torch.Tensor, begin: int, cache: Cache) -> torch.Tensor:
        """Run all layers over rows [rows, width] at positions from `begin` on, and return the output rows."""
        caches = cast("LayerCaches", cache)
        for layer in caches.layers:
            layer.crop(begin - layer.get_seq_length())
        positions = torch.arange(begin, begin + len(hidden)).unsqueeze(0)
        out = self._model(inputs_embeds=hidden.unsqueeze(0), position_ids=positions, cache=caches, use_cache=True)
        rows: torch.Tensor = out.last_hidden_state[0]
        return rows

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [rows, vocab_size] of the last layer's output rows [rows, width].

        Raises:
            ValueError: the range does not have the last layer.
        """
        if self._head is None:
            raise ValueError("this range gives hidden rows")
        logits: torch.Tensor = self._norm(hidden) @ self._head.T
        return logits

    def _take_layers(self, weights: SafetensorsWeights, progress: Progress) -> dict[str, torch.Tensor]:
        """Return the tensors of the range's layers by name, with layer numbers counted from the range's first layer."""
        expected = {name: tuple(tensor.shape) for name, tensor in self._model.layers.state_dict().items()}
        taken = {}
        for layer in range(self.layer_begin, self.layer_end):
            prefix = f"model.layers.{layer}."
            for name in weights.names(prefix):
                own_name = f"{layer - self.layer_begin}.{name.removeprefix(prefix)}"
                # Old files store these frequencies, although they follow from the configuration.
                if name.endswith("rotary_emb.inv_freq"):
                    continue
                if own_name not in expected:
                    raise unsupported(f"a model with the tensor {printable(name)}")
                taken[own_name] = weights.take(name, expected[own_name])
            progress((layer + 1 - self.layer_begin) / (self.layer_end - self.layer_begin))
        missing = expected.keys() - taken.keys()
        if missing:
            layer, _, name = min(missing).partition(".")
            raise bad_tensor(f"there is no tensor model.layers.{self.layer_begin + int(layer)}.{name}")
        return taken

    def _take_head(self, weights: SafetensorsWeights, config: PreTrainedConfig, shape: tuple[int, int]) -> torch.Tensor:
        if not config.tie_word_embeddings:
            return weights.take(_HEAD, shape)
        return weights.take(_EMBEDDINGS, shape) if self._embeddings is None else self._embeddings


class _LayerCells(DynamicLayer):  # type: ignore[misc]  # transformers is not followed
    """One layer's keys and values in cells that are allocated once, so that a new row copies no old rows."""

    def __init__(self, cells: int) -> None:
        super().__init__()
        self._cells = cells

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate all cells when the first rows [1, heads, rows, head_size] come; later rows have the same shape."""
        batch, heads, _, size = key_states.shape
        self._keys = key_states.new_empty(batch, heads, self._cells, size)
        self._values = value_states.new_empty(batch, heads, self._cells, size)
        self.keys, self.values = self._keys[..., :0, :], self._values[..., :0, :]
        self.device, self.dtype = key_states.device, key_states.dtype
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: object, **_options: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the keys and values of new rows; return those of all rows."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        begin = self.keys.shape[-2]
        end = begin + key_states.shape[-2]
        self._keys[..., begin:end, :] = key_states
        self._values[..., begin:end, :] = value_states
        self.keys, self.values = self._keys[..., :end, :], self._values[..., :end, :]
        return self.keys, self.values


def read_config(folder: Path) -> PreTrainedConfig:
    """Read config.json and return transformers' configuration of the whole model.

    Raises:
        WorkerError: `unsupported_architecture`: the engine cannot compute such a model.
        ArtifactError: `bad_metadata`: the file is missing, malformed or has impossible sizes.
    """
    _refuse_unbounded(folder / "config.json")
    with _of_the_file():
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if config.model_type not in GRAPHS:
        raise unsupported(f"the torch engine has no graph of {printable(config.model_type)}")
    if getattr(config, "quantization_config", None) is not None:
        raise unsupported("weights that are quantised")
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or []):
        raise unsupported(f"{config.model_type} with another attention than over all positions")
    if not _is_steady(config.rope_parameters):
        raise unsupported(f"{config.model_type} with a rope that changes with the position")
    _refuse_sizes(config)
    return config


def _refuse_unbounded(path: Path) -> None:
    """Raise if transformers could spend unbounded time or memory on this config.json, which it has not read yet."""
    try:
        if not path.is_file():
            raise _bad_config("it is no regular file")
        with path.open("rb") as file:
            data = file.read(_CONFIG_BYTES_MAX + 1)
        if len(data) > _CONFIG_BYTES_MAX:
            raise _bad_config(f"it is longer than {_CONFIG_BYTES_MAX} bytes")
        config = json.loads(data)
    except OSError as error:
        raise _bad_config(str(error.strerror)) from error
    except (ValueError, RecursionError) as error:
        raise _bad_config(type(error).__name__) from error
    if not isinstance(config, dict):
        raise _bad_config("it is no object")
    for name, largest in (_SIZES | {"head_dim": _LARGEST_HEAD}).items():
        size = config.get(name, 1)
        if isinstance(size, int | float) and size > largest:
            raise _bad_config(f"{name} is no possible number")


@contextlib.contextmanager
def _of_the_file() -> Iterator[None]:
    """Turn any error of transformers within the context into `bad_metadata`, since an untrusted file can cause many."""
    try:
        yield
    except Exception as error:
        raise _bad_config(type(error).__name__) from error


def _bad_config(why: str) -> ArtifactError:
    return ArtifactError("bad_metadata", "Unusable model folder", f"config.json cannot be used: {why}")


def _refuse_sizes(config: PreTrainedConfig) -> None:
    """Raise if the configuration, which transformers accepted, has a size that is impossible for a layer."""
    for name, largest in _SIZES.items():
        size = getattr(config, name, None)
        if type(size) is not int or not 0 < size <= largest:
            raise _bad_config(f"{name} is no possible number")
    head_size = _head_size(config)
    if type(head_size) is not int or not 0 < head_size <= _LARGEST_HEAD:
        raise _bad_config("its heads have no possible size")
    if config.num_attention_heads % config.num_key_value_heads:
        raise _bad_config(f"{config.num_attention_heads} heads, {config.num_key_value_heads} of keys")


def _is_steady(rope: Mapping[str, object] | None) -> bool:
    if not isinstance(rope, dict):
        return False
    if rope.get("rope_type") == "longrope":
        return rope.get("short_factor") == rope.get("long_factor")
    return rope.get("rope_type") in _STEADY_ROPES


def _head_size(config: PreTrainedConfig) -> int:
    size: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return size


def _refuse_foreign(weights: SafetensorsWeights, n_layers: int) -> None:
    """Raise if a tensor belongs to no layer of the model and no graph here uses it."""
    for name in weights.names(""):
        of_layer = _LAYER.match(name)
        if not (int(of_layer[1]) < n_layers if of_layer else name in _OF_THE_MODEL):
            raise unsupported(f"a model with the tensor {printable(name)}")


def _empty_model(config: PreTrainedConfig, layer_begin: int, layer_end: int) -> PreTrainedModel:
    """Return transformers' model of the range's layers without weights; only the rope frequencies are computed."""
    own = copy.deepcopy(config)
    own.num_hidden_layers = layer_end - layer_begin
    with _of_the_file():
        if getattr(config, "layer_types", None):
            own.layer_types = config.layer_types[layer_begin:layer_end]
        with torch.device("meta"):
            model = AutoModel.from_config(own, attn_implementation="sdpa", dtype=torch.float32).eval()
        model.embed_tokens = None
        model.rotary_emb = type(model.rotary_emb)(config=own)
    frequencies = model.rotary_emb.inv_freq
    if 2 * len(frequencies) != _head_size(config) or not frequencies.isfinite().all():
        raise _bad_config("its rope does not turn the elements of a head")
    return model.requires_grad_(requires_grad=False)

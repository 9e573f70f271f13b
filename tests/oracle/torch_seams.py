"""The rows that TorchEngine gives at every seam: one shard a layer, so that each is loaded as a range of its own.

The prompt's first half goes in at once and the rest row by row, as a route's frames do, so that the cache is compared
with the other engine's single step as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from meshnet.artifact.gguf import read_header
from node_app.reference_worker.torch.engine import TorchEngine
from node_app.reference_worker.torch.gguf_range import GgufRange
from node_app.reference_worker.torch.gguf_weights import GgufWeights
from node_app.reference_worker.torch.model_facts import ModelFacts
from node_app.reference_worker.torch.safetensors_range import SafetensorsRange, read_config
from node_app.reference_worker.torch.safetensors_weights import SafetensorsWeights

Rows = NDArray[np.float32]


def load_layers(model: Path, *, rope_base_factor: float = 1.0) -> list[TorchEngine]:
    """One shard a layer, of a GGUF file or a folder of safetensors.

    `rope_base_factor` other than one makes a wrong model of it, for a control.
    """
    if model.is_dir():
        return _load_folder(model, rope_base_factor)
    header = read_header(model)
    facts = ModelFacts.of(header)
    facts = replace(facts, rope_base=facts.rope_base * rope_base_factor)
    layers = range(facts.n_layers)
    return [TorchEngine(GgufRange(GgufWeights(header), facts, layer, layer + 1)) for layer in layers]


def _load_folder(folder: Path, rope_base_factor: float) -> list[TorchEngine]:
    config = read_config(folder)
    config.rope_parameters["rope_theta"] *= rope_base_factor
    weights, layers = SafetensorsWeights(folder), range(config.num_hidden_layers)
    return [TorchEngine(SafetensorsRange(weights, config, layer, layer + 1)) for layer in layers]


def in_a_chain(layers: Sequence[TorchEngine], prompt: Sequence[int], *, skipped: int | None = None) -> list[Rows]:
    """Rows after each layer from the tokens on, and the logits last. `skipped`: a layer left out, for a control."""
    hidden = layers[0].embed(prompt)
    seams = []
    for number, layer in enumerate(layers):
        hidden = hidden if number == skipped else _run(layer, hidden)
        seams.append(_output(layer, hidden))
    return seams


def one_by_one(layers: Sequence[TorchEngine], prompt: Sequence[int], before: Sequence[Rows]) -> list[Rows]:
    """Rows after each layer from the rows before it: `before[n]` are those after layer n, of another engine."""
    inputs = [layers[0].embed(prompt), *(torch.tensor(rows) for rows in before[:-1])]
    return [_output(layer, _run(layer, rows)) for layer, rows in zip(layers, inputs, strict=True)]


def _run(layer: TorchEngine, hidden: torch.Tensor) -> torch.Tensor:
    sequence = layer.open(len(hidden))
    half = (len(hidden) + 1) // 2
    steps = [hidden[:half], *hidden[half:].split(1)]
    return torch.cat([sequence.step_rows(rows) for rows in steps if len(rows)])


def _output(layer: TorchEngine, hidden: torch.Tensor) -> Rows:
    rows: Rows = (layer.logits(hidden) if layer.owns_output else hidden).numpy()
    return rows

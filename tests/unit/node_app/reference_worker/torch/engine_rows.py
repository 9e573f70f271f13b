"""The rows of one prompt through TorchEngines: whole, through a chain of ranges, and whether two are the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch

from node_app.reference_worker.torch.engine import TorchEngine
from tests.simulators.tiny_models import TINY_MODELS

LAYERS = 4
CUTS = [(1,), (2,), (3,), (1, 3), (1, 2, 3)]
TOKENS = [3, 141, 59, 26, 53, 58, 97, 93, 23, 84, 62]
BY_NAME = {model.architecture: model for model in TINY_MODELS}


def whole_logits(source: Path) -> torch.Tensor:
    """Of every row of TOKENS, (rows, vocabulary)."""
    engine = TorchEngine.load(source)
    return engine.logits(engine.open(len(TOKENS)).step_tokens(TOKENS))


def chained_logits(sources: Sequence[Path], cuts: tuple[int, ...]) -> torch.Tensor:
    """The same through one engine a range; the ranges take turns with the sources."""
    shards = [
        TorchEngine.load(sources[number % len(sources)], begin, end)
        for number, (begin, end) in enumerate(pairwise((0, *cuts, LAYERS)))
    ]
    rows = shards[0].open(len(TOKENS)).step_tokens(TOKENS)
    for shard in shards[1:]:
        rows = shard.open(len(TOKENS)).step_rows(rows)
    return shards[-1].logits(rows)


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two results are the same but for the order of sums."""
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-4, atol=1e-4)

"""The inventory of the first large target is the published one, to the byte."""

from __future__ import annotations

import math
from collections import Counter

from tests.simulators import deepseek_v4_flash as target
from tests.simulators.deepseek_v4_flash import HIDDEN, OFFICIAL_TENSOR_BYTES, STREAMS, official_tensors

# The MTP block brings its own copy of the three tensors that collapse the streams; a GGUF has them once.
STREAM_HEAD_BYTES = 4 * (STREAMS * HIDDEN * STREAMS + STREAMS + 1)


def test_shapes_and_types_sum_to_the_published_size() -> None:
    tensors = list(official_tensors(nextn=True))
    total = sum(tensor.official_bytes for tensor in tensors) + STREAM_HEAD_BYTES
    print({"tensors": len(tensors), "bytes": total})
    assert len(tensors) == 1356
    assert total == OFFICIAL_TENSOR_BYTES


def test_a_single_other_width_would_show() -> None:
    changed = [tensor for tensor in official_tensors(nextn=True) if tensor.name != "blk.7.attn_q_a.weight"]
    assert sum(tensor.official_bytes for tensor in changed) + STREAM_HEAD_BYTES != OFFICIAL_TENSOR_BYTES


def test_parameters_are_as_many_as_are_published() -> None:
    """284 billion; the published figure counts no token tables."""
    weights = [tensor for tensor in official_tensors() if "tid2eid" not in tensor.name]
    assert round(sum(math.prod(tensor.shape) for tensor in weights) / 1e9) == 284


def test_names_are_unique_and_counted_by_kind() -> None:
    names = [tensor.name for tensor in official_tensors()]
    assert len(names) == len(set(names)) == 1328
    kinds = Counter(name.partition("blk.")[2].partition(".")[2] for name in names)
    assert kinds["ffn_gate_exps.weight"] == target.N_LAYERS
    assert (kinds["attn_compressor_kv.weight"], kinds["indexer.proj.weight"]) == (41, 21)
    assert (kinds["ffn_gate_tid2eid.weight"], kinds["exp_probs_b.bias"]) == (3, 40)

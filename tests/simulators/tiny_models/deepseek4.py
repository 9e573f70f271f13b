"""DeepSeek-V4: hyper-connections, layers with and without compressed caches, experts chosen by token id."""

from __future__ import annotations

from typing import Final

from tests.simulators.tiny_models.blocks import RMS_EPSILON, Experts, nextn_inputs
from tests.simulators.tiny_models.weights import VOCABULARY, TinyWriter

WIDTH: Final = 64
STREAMS: Final = 4  # of the hyper-connections: a seam is STREAMS * WIDTH values wide
HASH_LAYERS: Final = 3
SQRT_SOFTPLUS_GATE: Final = 4
WINDOW: Final = 32
HEADS: Final = 4
HEAD_SIZE: Final = 128
ROPE: Final = 32
QUERY_RANK: Final = 32
OUTPUT_GROUPS: Final = 2
OUTPUT_RANK: Final = 32
INDEXER_HEADS: Final = 2
INDEXER_SIZE: Final = 64
INDEXER_TOP_K: Final = 8
MIXES: Final = (2 + STREAMS) * STREAMS
RATIO_WITH_INDEXER: Final = 4
EXPERTS: Final = Experts(WIDTH, shared=1)
IMAGE_LAYER: Final = 4  # of the file with a nextn block: its experts depend on whether a row has a token id


def compress_ratios(layers: int) -> list[int]:
    """As in V4-Flash: two layers of the window alone, then 4 and 128 by turns."""
    return [0 if layer < 2 else (4 if layer % 2 == 0 else 128) for layer in range(layers)]


def write_deepseek4(writer: TinyWriter, layers: int) -> None:
    """All kinds of layers; the first ones choose experts by token id."""
    _write(writer, compress_ratios(layers), nextn=False)


def write_deepseek4_with_nextn(writer: TinyWriter, layers: int) -> None:
    """The same with a block that drafts, and with image tokens' biases of the experts in one layer."""
    _write(writer, [*compress_ratios(layers), 0], nextn=True)


def _write(writer: TinyWriter, ratios: list[int], *, nextn: bool) -> None:
    _metadata(writer, len(ratios), ratios)
    if nextn:
        writer.numbers(nextn_predict_layers=1)
    writer.embeddings(WIDTH)
    _mixer(writer, "output_hc", STREAMS, scales=1)
    for layer, ratio in enumerate(ratios):
        block = f"blk.{layer}"
        _attention(writer, block)
        _mixer(writer, f"{block}.hc_attn", MIXES, scales=3)
        _mixer(writer, f"{block}.hc_ffn", MIXES, scales=3)
        if ratio:
            _compressor(writer, f"{block}.attn_compressor", HEAD_SIZE, ratio)
        if ratio == RATIO_WITH_INDEXER:
            writer.matrix(f"{block}.indexer.proj", WIDTH, INDEXER_HEADS)
            writer.matrix(f"{block}.indexer.attn_q_b", QUERY_RANK, INDEXER_HEADS * INDEXER_SIZE)
            _compressor(writer, f"{block}.indexer_compressor", INDEXER_SIZE, ratio)
        writer.norm(f"{block}.ffn_norm", WIDTH)
        EXPERTS.weights(writer, block)
        if layer < HASH_LAYERS:
            writer.choices(f"{block}.ffn_gate_tid2eid", EXPERTS.used, VOCABULARY, EXPERTS.count)
        else:
            writer.vector(f"{block}.exp_probs_b", EXPERTS.count)
        if nextn and layer == IMAGE_LAYER:
            writer.vector(f"{block}.exp_probs_b_vl", EXPERTS.count)
    if nextn:
        nextn_inputs(writer, f"blk.{len(ratios) - 1}.nextn", WIDTH)


def _metadata(writer: TinyWriter, layers: int, ratios: list[int]) -> None:
    EXPERTS.metadata(writer)
    writer.numbers(
        embedding_length=WIDTH,
        block_count=layers,
        feed_forward_length=EXPERTS.feed_forward,
        attention__head_count=HEADS,
        attention__head_count_kv=1,
        attention__key_length=HEAD_SIZE,
        attention__value_length=HEAD_SIZE,
        attention__q_lora_rank=QUERY_RANK,
        attention__sliding_window=WINDOW,
        attention__layer_norm_rms_epsilon=RMS_EPSILON,
        attention__indexer__head_count=INDEXER_HEADS,
        attention__indexer__key_length=INDEXER_SIZE,
        attention__indexer__top_k=INDEXER_TOP_K,
        attention__output_group_count=OUTPUT_GROUPS,
        attention__output_lora_rank=OUTPUT_RANK,
        attention__compress_rope_freq_base=160_000.0,
        hyper_connection__count=STREAMS,
        hyper_connection__sinkhorn_iterations=4,
        hyper_connection__epsilon=1e-6,
        hash_layer_count=HASH_LAYERS,
        rope__dimension_count=ROPE,
        expert_gating_func=SQRT_SOFTPLUS_GATE,
        expert_weights_scale=1.5,
        expert_weights_norm=True,
        swiglu_clamp_exp=10.0,
    )
    writer.array("attention.compress_ratios", ratios)


def _attention(writer: TinyWriter, block: str) -> None:
    writer.norm(f"{block}.attn_norm", WIDTH)
    writer.vector(f"{block}.attn_sinks", HEADS, spread=1.0, suffix=".weight")
    writer.matrix(f"{block}.attn_q_a", WIDTH, QUERY_RANK)
    writer.norm(f"{block}.attn_q_a_norm", QUERY_RANK)
    writer.matrix(f"{block}.attn_q_b", QUERY_RANK, HEADS * HEAD_SIZE)
    writer.matrix(f"{block}.attn_kv", WIDTH, HEAD_SIZE)
    writer.norm(f"{block}.attn_kv_a_norm", HEAD_SIZE)
    writer.matrix(f"{block}.attn_output_a", HEADS * HEAD_SIZE // OUTPUT_GROUPS, OUTPUT_RANK * OUTPUT_GROUPS)
    writer.matrix(f"{block}.attn_output_b", OUTPUT_GROUPS * OUTPUT_RANK, WIDTH)


def _mixer(writer: TinyWriter, prefix: str, mixes: int, scales: int) -> None:
    """One of the hyper-connections' maps: all streams in, `mixes` weights out."""
    writer.matrix(f"{prefix}_fn", WIDTH * STREAMS, mixes, exact=True)
    writer.vector(f"{prefix}_base", mixes, suffix=".weight")
    writer.vector(f"{prefix}_scale", scales, mean=1.0, suffix=".weight")


def _compressor(writer: TinyWriter, prefix: str, size: int, ratio: int) -> None:
    """What makes one row of a compressed cache of `ratio` rows; the small ratio's blocks overlap."""
    values = size * (2 if ratio == RATIO_WITH_INDEXER else 1)
    writer.matrix(f"{prefix}_kv", WIDTH, values)
    writer.matrix(f"{prefix}_gate", WIDTH, values)
    writer.matrix(f"{prefix}_ape", values, ratio, exact=True)
    writer.norm(f"{prefix}_norm", size)

"""Architectures whose memory is a KV cache: dense ones, mixtures of experts, sliding windows, latent attention."""

from __future__ import annotations

from typing import Final

from tests.simulators.tiny_models.blocks import RMS_EPSILON, Attention, Experts, dense_feed_forward
from tests.simulators.tiny_models.weights import TinyWriter

ATTENTION: Final = Attention()
DENSE_FEED_FORWARD: Final = 96
SUPERBLOCK: Final = 256  # of the K types
SLIDING_WINDOW: Final = 48
SIGMOID_GATE: Final = 2


def write_llama(writer: TinyWriter, layers: int) -> None:
    """Llama 3: frequency factors that all layers share."""
    _llama(writer, layers, ATTENTION, DENSE_FEED_FORWARD)


def write_wide_llama(writer: TinyWriter, layers: int) -> None:
    """The same with rows of whole superblocks, which every type of weights can hold."""
    _llama(writer, layers, Attention(width=SUPERBLOCK, head_size=SUPERBLOCK // ATTENTION.heads), 2 * SUPERBLOCK)


def write_qwen2(writer: TinyWriter, layers: int) -> None:
    """Biases on Q, K and V, a tied head, heads that are as wide as the model in all."""
    attention = Attention(head_size=ATTENTION.width // ATTENTION.heads)
    attention.metadata(writer, layers, DENSE_FEED_FORWARD)
    writer.embeddings(attention.width, tied=True)
    _dense_layers(writer, layers, attention, biases=True)


def write_qwen3(writer: TinyWriter, layers: int) -> None:
    """Norms on the heads of Q and K, a tied head."""
    ATTENTION.metadata(writer, layers, DENSE_FEED_FORWARD)
    writer.embeddings(ATTENTION.width, tied=True)
    _dense_layers(writer, layers, ATTENTION, head_norms=True)


def write_qwen3moe(writer: TinyWriter, layers: int) -> None:
    """Every feed-forward is a mixture of experts."""
    experts = Experts()
    ATTENTION.metadata(writer, layers, DENSE_FEED_FORWARD)
    experts.metadata(writer)
    writer.embeddings(ATTENTION.width)
    for layer in range(layers):
        block = f"blk.{layer}"
        writer.norm(f"{block}.attn_norm", ATTENTION.width)
        ATTENTION.projections(writer, block)
        ATTENTION.head_norms(writer, block)
        writer.norm(f"{block}.ffn_norm", ATTENTION.width)
        experts.weights(writer, block)


def write_glm4moe(writer: TinyWriter, layers: int) -> None:
    """A dense first layer, then experts with a shared one, chosen by sigmoid scores and a bias; a block that drafts."""
    experts = Experts(shared=1)
    ATTENTION.metadata(writer, layers + 1, DENSE_FEED_FORWARD)
    experts.metadata(writer)
    writer.numbers(
        nextn_predict_layers=1,
        leading_dense_block_count=1,
        expert_gating_func=SIGMOID_GATE,
        expert_weights_scale=1.5,
        expert_weights_norm=True,
    )
    writer.embeddings(ATTENTION.width)
    for layer in range(layers + 1):
        block = f"blk.{layer}"
        writer.norm(f"{block}.attn_norm", ATTENTION.width)
        ATTENTION.projections(writer, block, biases=True)
        ATTENTION.head_norms(writer, block)
        writer.norm(f"{block}.post_attention_norm", ATTENTION.width)
        if layer == layers:
            writer.matrix(f"{block}.nextn.eh_proj", 2 * ATTENTION.width, ATTENTION.width)
            writer.norm(f"{block}.nextn.enorm", ATTENTION.width)
            writer.norm(f"{block}.nextn.hnorm", ATTENTION.width)
        if layer == 0:
            dense_feed_forward(writer, block, ATTENTION.width, DENSE_FEED_FORWARD)
            continue
        experts.weights(writer, block)
        writer.vector(f"{block}.exp_probs_b", experts.count)


def write_gpt_oss(writer: TinyWriter, layers: int) -> None:
    """A sliding window in every other layer, attention sinks, biases everywhere."""
    experts = Experts()
    ATTENTION.metadata(writer, layers, DENSE_FEED_FORWARD)
    experts.metadata(writer)
    writer.numbers(attention__sliding_window=SLIDING_WINDOW)
    writer.embeddings(ATTENTION.width)
    for layer in range(layers):
        block = f"blk.{layer}"
        writer.norm(f"{block}.attn_norm", ATTENTION.width)
        ATTENTION.projections(writer, block, biases=True)
        writer.vector(f"{block}.attn_output", ATTENTION.width)
        writer.vector(f"{block}.attn_sinks", ATTENTION.heads, spread=1.0, suffix=".weight")
        writer.norm(f"{block}.post_attention_norm", ATTENTION.width)
        experts.weights(writer, block)
        writer.vector(f"{block}.ffn_gate_inp", experts.count)
        writer.vector(f"{block}.ffn_gate_exps", experts.feed_forward, experts.count)
        writer.vector(f"{block}.ffn_up_exps", experts.feed_forward, experts.count)
        writer.vector(f"{block}.ffn_down_exps", ATTENTION.width, experts.count)


def write_gemma3(writer: TinyWriter, layers: int) -> None:
    """Five layers of a sliding window to one without, with rope bases of their own; a tied head."""
    ATTENTION.metadata(writer, layers, DENSE_FEED_FORWARD)
    writer.numbers(attention__sliding_window=SLIDING_WINDOW, rope__freq_base_swa=1_000.0)
    writer.embeddings(ATTENTION.width, tied=True)
    for layer in range(layers):
        block = f"blk.{layer}"
        writer.norm(f"{block}.attn_norm", ATTENTION.width)
        ATTENTION.projections(writer, block)
        ATTENTION.head_norms(writer, block)
        writer.norm(f"{block}.post_attention_norm", ATTENTION.width)
        writer.norm(f"{block}.ffn_norm", ATTENTION.width)
        dense_feed_forward(writer, block, ATTENTION.width, DENSE_FEED_FORWARD)
        writer.norm(f"{block}.post_ffw_norm", ATTENTION.width)


def write_deepseek2(writer: TinyWriter, layers: int) -> None:
    """Latent attention (MLA) with absorbed projections, a dense first layer, then experts with a shared one."""
    width, heads, rope, nope, value, query_rank, kv_rank = 64, 4, 16, 32, 32, 32, 32
    experts = Experts(shared=1)
    experts.metadata(writer)
    writer.numbers(
        embedding_length=width,
        block_count=layers,
        feed_forward_length=DENSE_FEED_FORWARD,
        attention__head_count=heads,
        attention__head_count_kv=1,
        attention__key_length=kv_rank + rope,
        attention__value_length=kv_rank,
        attention__key_length_mla=nope + rope,
        attention__value_length_mla=value,
        attention__q_lora_rank=query_rank,
        attention__kv_lora_rank=kv_rank,
        attention__layer_norm_rms_epsilon=RMS_EPSILON,
        rope__dimension_count=rope,
        leading_dense_block_count=1,
        expert_gating_func=SIGMOID_GATE,
        expert_weights_scale=2.0,
        expert_weights_norm=True,
    )
    writer.embeddings(width)
    for layer in range(layers):
        block = f"blk.{layer}"
        writer.norm(f"{block}.attn_norm", width)
        writer.matrix(f"{block}.attn_q_a", width, query_rank)
        writer.norm(f"{block}.attn_q_a_norm", query_rank)
        writer.matrix(f"{block}.attn_q_b", query_rank, heads * (nope + rope))
        writer.matrix(f"{block}.attn_kv_a_mqa", width, kv_rank + rope)
        writer.norm(f"{block}.attn_kv_a_norm", kv_rank)
        writer.matrix(f"{block}.attn_k_b", nope, kv_rank, heads)
        writer.matrix(f"{block}.attn_v_b", kv_rank, value, heads)
        writer.matrix(f"{block}.attn_output", heads * value, width)
        writer.norm(f"{block}.ffn_norm", width)
        if layer == 0:
            dense_feed_forward(writer, block, width, DENSE_FEED_FORWARD)
            continue
        experts.weights(writer, block)
        writer.vector(f"{block}.exp_probs_b", experts.count)


def _llama(writer: TinyWriter, layers: int, attention: Attention, feed_forward: int) -> None:
    attention.metadata(writer, layers, feed_forward)
    writer.embeddings(attention.width)
    writer.vector("rope_freqs", attention.head_size // 2, mean=1.0, suffix=".weight")
    _dense_layers(writer, layers, attention, feed_forward)


def _dense_layers(
    writer: TinyWriter,
    layers: int,
    attention: Attention,
    feed_forward: int = DENSE_FEED_FORWARD,
    *,
    biases: bool = False,
    head_norms: bool = False,
) -> None:
    for layer in range(layers):
        block = f"blk.{layer}"
        writer.norm(f"{block}.attn_norm", attention.width)
        attention.projections(writer, block, biases=biases)
        if head_norms:
            attention.head_norms(writer, block)
        writer.norm(f"{block}.ffn_norm", attention.width)
        dense_feed_forward(writer, block, attention.width, feed_forward)

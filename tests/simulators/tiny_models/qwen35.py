"""Qwen 3.5: three layers of gated linear attention, whose memory is a state, to one of ordinary attention."""

from __future__ import annotations

from typing import Final

from tests.simulators.tiny_models.blocks import Attention, Experts, dense_feed_forward, nextn_inputs
from tests.simulators.tiny_models.weights import VOCABULARY, TinyWriter

ATTENTION: Final = Attention()
FEED_FORWARD: Final = 96
FULL_ATTENTION_INTERVAL: Final = 4
CONVOLUTION: Final = 4
STATE_SIZE: Final = 32
KEY_HEADS: Final = 2
VALUE_HEADS: Final = 4
INNER: Final = STATE_SIZE * VALUE_HEADS
EXPERTS: Final = Experts(feed_forward=32)


def write_qwen35(writer: TinyWriter, layers: int) -> None:
    """Dense feed-forward, a tied head."""
    _metadata(writer, layers)
    _write_dense(writer, layers)


def write_qwen35_with_nextn(writer: TinyWriter, layers: int) -> None:
    """The same with a block that drafts, by an embedding of its own."""
    _metadata(writer, layers + 1)
    writer.numbers(nextn_predict_layers=1)
    _write_dense(writer, layers)
    block = f"blk.{layers}"
    writer.norm(f"{block}.attn_norm", ATTENTION.width)
    writer.norm(f"{block}.post_attention_norm", ATTENTION.width)
    ATTENTION.projections(writer, block, query_parts=2)
    ATTENTION.head_norms(writer, block)
    dense_feed_forward(writer, block, ATTENTION.width, FEED_FORWARD)
    nextn_inputs(writer, f"{block}.nextn", ATTENTION.width)
    writer.matrix(f"{block}.nextn.embed_tokens", ATTENTION.width, VOCABULARY)


def _write_dense(writer: TinyWriter, layers: int) -> None:
    writer.embeddings(ATTENTION.width, tied=True)
    for layer in range(layers):
        _mixing(writer, layer)
        dense_feed_forward(writer, f"blk.{layer}", ATTENTION.width, FEED_FORWARD)


def write_qwen35moe(writer: TinyWriter, layers: int) -> None:
    """Experts with a shared one that has a gate."""
    _metadata(writer, layers)
    EXPERTS.metadata(writer)
    writer.numbers(expert_shared_feed_forward_length=FEED_FORWARD)
    writer.embeddings(ATTENTION.width)
    for layer in range(layers):
        block = f"blk.{layer}"
        _mixing(writer, layer)
        EXPERTS.weights(writer, block)
        writer.vector(f"{block}.ffn_gate_inp_shexp", ATTENTION.width, suffix=".weight")
        dense_feed_forward(writer, block, ATTENTION.width, FEED_FORWARD, suffix="_shexp")


def _metadata(writer: TinyWriter, layers: int) -> None:
    ATTENTION.metadata(writer, layers, FEED_FORWARD)
    writer.numbers(
        ssm__conv_kernel=CONVOLUTION,
        ssm__inner_size=INNER,
        ssm__state_size=STATE_SIZE,
        ssm__time_step_rank=VALUE_HEADS,
        ssm__group_count=KEY_HEADS,
        full_attention_interval=FULL_ATTENTION_INTERVAL,
    )
    writer.array("rope.dimension_sections", [4, 6, 6, 0])


def _mixing(writer: TinyWriter, layer: int) -> None:
    """What lets rows of a sequence see each other: linear attention, or the ordinary one."""
    block = f"blk.{layer}"
    writer.norm(f"{block}.attn_norm", ATTENTION.width)
    writer.norm(f"{block}.post_attention_norm", ATTENTION.width)
    if (layer + 1) % FULL_ATTENTION_INTERVAL == 0:
        ATTENTION.projections(writer, block, query_parts=2)
        ATTENTION.head_norms(writer, block)
        return
    channels = 2 * KEY_HEADS * STATE_SIZE + INNER
    writer.matrix(f"{block}.attn_qkv", ATTENTION.width, channels)
    writer.matrix(f"{block}.attn_gate", ATTENTION.width, INNER)
    writer.matrix(f"{block}.ssm_conv1d", CONVOLUTION, channels, exact=True)
    writer.vector(f"{block}.ssm_dt", VALUE_HEADS, spread=1.0)
    writer.vector(f"{block}.ssm_a", VALUE_HEADS, spread=0.4, mean=-0.5, suffix="")
    writer.matrix(f"{block}.ssm_beta", ATTENTION.width, VALUE_HEADS)
    writer.matrix(f"{block}.ssm_alpha", ATTENTION.width, VALUE_HEADS)
    writer.norm(f"{block}.ssm_norm", STATE_SIZE)
    writer.matrix(f"{block}.ssm_out", INNER, ATTENTION.width)

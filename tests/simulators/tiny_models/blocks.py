"""Parts that several architectures share: attention with grouped keys, dense and expert feed-forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.simulators.tiny_models.weights import TinyWriter

RMS_EPSILON: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Attention:
    """Sizes of ordinary attention."""

    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 32

    def metadata(self, writer: TinyWriter, layers: int, feed_forward: int) -> None:
        """What every architecture of this kind says about itself."""
        writer.numbers(
            embedding_length=self.width,
            block_count=layers,
            feed_forward_length=feed_forward,
            attention__head_count=self.heads,
            attention__head_count_kv=self.kv_heads,
            attention__key_length=self.head_size,
            attention__value_length=self.head_size,
            attention__layer_norm_rms_epsilon=RMS_EPSILON,
            rope__dimension_count=self.head_size,
            rope__freq_base=10_000.0,
        )

    def projections(self, writer: TinyWriter, block: str, *, biases: bool = False, query_parts: int = 1) -> None:
        """Q, K, V and the output; `query_parts` 2: the queries' gate lies beside them."""
        query, key = self.heads * self.head_size, self.kv_heads * self.head_size
        writer.matrix(f"{block}.attn_q", self.width, query * query_parts)
        writer.matrix(f"{block}.attn_k", self.width, key)
        writer.matrix(f"{block}.attn_v", self.width, key)
        writer.matrix(f"{block}.attn_output", query, self.width)
        if biases:
            for name, size in (("attn_q", query), ("attn_k", key), ("attn_v", key)):
                writer.vector(f"{block}.{name}", size)

    def head_norms(self, writer: TinyWriter, block: str) -> None:
        """A norm over each head of Q and K."""
        writer.norm(f"{block}.attn_q_norm", self.head_size)
        writer.norm(f"{block}.attn_k_norm", self.head_size)


@dataclass(frozen=True, slots=True)
class Experts:
    """Sizes of a mixture of experts."""

    width: int = 64
    count: int = 8
    used: int = 2
    feed_forward: int = 32
    shared: int = 0

    def metadata(self, writer: TinyWriter) -> None:
        """Counts and sizes."""
        writer.numbers(
            expert_count=self.count, expert_used_count=self.used, expert_feed_forward_length=self.feed_forward
        )
        if self.shared:
            writer.numbers(expert_shared_count=self.shared)

    def weights(self, writer: TinyWriter, block: str) -> None:
        """The router and the experts, and one shared expert of its own width where there is one."""
        writer.matrix(f"{block}.ffn_gate_inp", self.width, self.count, gain=2.0, exact=True)
        for name in ("ffn_gate", "ffn_up"):
            writer.matrix(f"{block}.{name}_exps", self.width, self.feed_forward, self.count)
        writer.matrix(f"{block}.ffn_down_exps", self.feed_forward, self.width, self.count)
        if self.shared:
            dense_feed_forward(writer, block, self.width, self.feed_forward * self.shared, suffix="_shexp")


def dense_feed_forward(writer: TinyWriter, block: str, width: int, feed_forward: int, suffix: str = "") -> None:
    """Gate, up and down."""
    writer.matrix(f"{block}.ffn_gate{suffix}", width, feed_forward)
    writer.matrix(f"{block}.ffn_up{suffix}", width, feed_forward)
    writer.matrix(f"{block}.ffn_down{suffix}", feed_forward, width)


def nextn_inputs(writer: TinyWriter, prefix: str, width: int) -> None:
    """What a block that drafts takes of a token's embedding and a hidden row."""
    writer.matrix(f"{prefix}.eh_proj", 2 * width, width)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        writer.norm(f"{prefix}.{name}", width)

"""Layers of dense decoders: grouped-query attention with rope over a KV cache, and a gated feed-forward network.

Invariants: float32 throughout; tensors are [rows, features] or [heads, rows, head_size]; files and sessions are not
known here.
Source: "LLaMA: Open and Efficient Foundation Language Models" (2302.13971), "RoFormer" (2104.09864).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from node_app.reference_worker.torch.gguf_weights import GgufWeights
    from node_app.reference_worker.torch.model_facts import ModelFacts


def rms_norm(values: torch.Tensor, weights: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Divide each row of `values` by the root of its mean square (plus `epsilon`), and multiply it by `weights`."""
    return values * torch.rsqrt(values.square().mean(-1, keepdim=True) + epsilon) * weights


class Rope:
    """Rotary position embedding. If `factors` [rope_size / 2] is given, the frequencies are divided by it."""

    def __init__(self, facts: ModelFacts, factors: torch.Tensor | None) -> None:
        exponents = torch.arange(0, facts.rope_size, 2, dtype=torch.float64) / facts.rope_size
        self._frequencies = facts.rope_base**-exponents
        if factors is not None:
            self._frequencies = self._frequencies / factors.double()
        self._size = facts.rope_size
        self._rotates_halves = facts.graph.rotates_halves

    def angles(self, begin: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines of positions [begin, end): two f32 tensors [rows, rope_size / 2], made in f64."""
        angles = torch.outer(torch.arange(begin, end, dtype=torch.float64), self._frequencies)
        return angles.cos().float(), angles.sin().float()

    def turn(self, heads: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return a copy of `heads` [heads, rows, head_size] with the first `rope_size` elements of each row rotated."""
        cosines, sines = angles
        turned = heads.clone()
        half = self._size // 2
        first, second = (
            (slice(0, half), slice(half, self._size))
            if self._rotates_halves
            else (slice(0, self._size, 2), slice(1, self._size, 2))
        )
        turned[..., first] = heads[..., first] * cosines - heads[..., second] * sines
        turned[..., second] = heads[..., first] * sines + heads[..., second] * cosines
        return turned


@dataclass(frozen=True, slots=True)
class KeysAndValues:
    """The KV cache of one sequence in one layer: two f32 tensors [kv_heads, cells, head_size]."""

    keys: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True, slots=True)
class DecoderStep:
    """The new rows of one step, at positions [begin, end) of a sequence, and the tensors that all layers use for them.

    Attributes:
        angles: cosines and sines of the rows' positions.
        mask: [rows, end], true if the row attends to the cell.
    """

    begin: int
    end: int
    angles: tuple[torch.Tensor, torch.Tensor]
    mask: torch.Tensor

    @classmethod
    def at(cls, rope: Rope, begin: int, rows: int) -> DecoderStep:
        """Return the step of `rows` new rows in a sequence that holds `begin` rows."""
        end = begin + rows
        mask = torch.arange(end) <= torch.arange(begin, end).unsqueeze(1)
        return cls(begin, end, rope.angles(begin, end), mask)


class _Projection:
    """A linear map: a matrix, and a bias if the architecture has one."""

    def __init__(self, weights: GgufWeights, name: str, outputs: int, inputs: int, *, has_bias: bool = False) -> None:
        self._matrix = weights.take(f"{name}.weight", outputs, inputs)
        self._bias = weights.take(f"{name}.bias", outputs) if has_bias else None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return functional.linear(rows, self._matrix, self._bias)


class DecoderLayer:
    """One layer of a model: its weights, and the computation over them."""

    def __init__(self, facts: ModelFacts, rope: Rope, weights: GgufWeights, layer: int) -> None:
        block, head = f"blk.{layer}", facts.head_size
        query, key, has_biases = facts.heads * head, facts.kv_heads * head, facts.graph.has_biases
        feed_forward = weights.shape(f"{block}.ffn_gate.weight")[0]
        self._facts = facts
        self._rope = rope
        self._attention_norm = weights.take(f"{block}.attn_norm.weight", facts.width)
        self._query = _Projection(weights, f"{block}.attn_q", query, facts.width, has_bias=has_biases)
        self._key = _Projection(weights, f"{block}.attn_k", key, facts.width, has_bias=has_biases)
        self._value = _Projection(weights, f"{block}.attn_v", key, facts.width, has_bias=has_biases)
        self._output = _Projection(weights, f"{block}.attn_output", facts.width, query)
        self._head_norms = (
            (weights.take(f"{block}.attn_q_norm.weight", head), weights.take(f"{block}.attn_k_norm.weight", head))
            if facts.graph.has_head_norms
            else None
        )
        self._feed_forward_norm = weights.take(f"{block}.ffn_norm.weight", facts.width)
        self._gate = _Projection(weights, f"{block}.ffn_gate", feed_forward, facts.width)
        self._up = _Projection(weights, f"{block}.ffn_up", feed_forward, facts.width)
        self._down = _Projection(weights, f"{block}.ffn_down", facts.width, feed_forward)

    def __call__(self, hidden: torch.Tensor, step: DecoderStep, cache: KeysAndValues) -> torch.Tensor:
        """Return the layer's output for `hidden` [rows, width], and write the rows' keys and values into `cache`."""
        epsilon = self._facts.rms_epsilon
        hidden = hidden + self._attend(rms_norm(hidden, self._attention_norm, epsilon), step, cache)
        normed = rms_norm(hidden, self._feed_forward_norm, epsilon)
        return hidden + self._down(functional.silu(self._gate(normed)) * self._up(normed))

    def _attend(self, normed: torch.Tensor, step: DecoderStep, cache: KeysAndValues) -> torch.Tensor:
        queries, keys = self._heads(self._query(normed)), self._heads(self._key(normed))
        if self._head_norms is not None:
            queries = rms_norm(queries, self._head_norms[0], self._facts.rms_epsilon)
            keys = rms_norm(keys, self._head_norms[1], self._facts.rms_epsilon)
        cache.keys[:, step.begin : step.end] = self._rope.turn(keys, step.angles)
        cache.values[:, step.begin : step.end] = self._heads(self._value(normed))
        attended = functional.scaled_dot_product_attention(
            self._rope.turn(queries, step.angles),
            cache.keys[:, : step.end],
            cache.values[:, : step.end],
            attn_mask=step.mask,
            enable_gqa=True,
        )
        return self._output(attended.transpose(0, 1).flatten(1))

    def _heads(self, rows: torch.Tensor) -> torch.Tensor:
        """Reshape [rows, heads * head_size] to [heads, rows, head_size]."""
        return rows.unflatten(1, (-1, self._facts.head_size)).transpose(0, 1)

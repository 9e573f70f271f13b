"""The header of a DeepSeek-V4-Flash GGUF: every tensor's true name, shape and type, and no weights.

What is a fact and where it comes from, and what is assumed, is told in docs/models/deepseek-v4-flash.md. The tensors
are those that the pinned llama.cpp's deepseek4 loader asks for, with the types that its converter gives them; the
tokens and merges are made up, as many as the model has and about as long.

Run as a program it writes one: `python -m tests.simulators.deepseek_v4_flash PATH [--cut] [--nextn] [--experts TYPE]`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.simulators.gguf_header import HeaderTensor, Value, write_header

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHITECTURE: Final = "deepseek4"
N_LAYERS: Final = 43
HIDDEN: Final = 4096
VOCABULARY: Final = 129_280
MERGES: Final = 127_741
CONTEXT: Final = 1_048_576
HEADS: Final = 64
HEAD_WIDTH: Final = 512
Q_LORA: Final = 1024
OUTPUT_GROUPS: Final = 8
OUTPUT_LORA: Final = 1024
STREAMS: Final = 4
STREAM_MIXES: Final = (2 + STREAMS) * STREAMS
EXPERTS: Final = 256
EXPERTS_USED: Final = 6
EXPERT_WIDTH: Final = 2048
INDEXER_HEADS: Final = 64
INDEXER_WIDTH: Final = 128
INDEXER_TOP_K: Final = 512
HASH_LAYERS: Final = 3
WINDOW: Final = 128
# One for each layer, and one for the MTP block after them.
COMPRESS_RATIOS: Final = (0, 0, *(4, 128) * 20, 4, 0)

# Bytes of the official safetensors files' tensors, the MTP block's included.
OFFICIAL_TENSOR_BYTES: Final = 159_609_485_896
FP8_BLOCK: Final = 128
FP4_BLOCK: Final = 32


class Source(Enum):
    """How the official checkpoint keeps a tensor."""

    BF16 = "bf16"
    F32 = "f32"
    I64 = "i64"
    FP8 = "fp8, one scale byte for 128 x 128 values"
    FP4 = "fp4, one scale byte for 32 values"


@dataclass(frozen=True, slots=True)
class OfficialTensor:
    """A tensor by its GGUF name. `shape` is in ggml's order, the contiguous dimension first."""

    name: str
    shape: tuple[int, ...]
    source: Source

    @property
    def official_bytes(self) -> int:
        """In the official files, scales included."""
        columns, rows, matrices = (*self.shape, 1, 1)[:3]
        elements = columns * rows * matrices
        match self.source:
            case Source.BF16:
                return 2 * elements
            case Source.F32:
                return 4 * elements
            case Source.I64:
                return 8 * elements
            case Source.FP8:
                return elements + -(-columns // FP8_BLOCK) * -(-rows // FP8_BLOCK) * matrices
            case Source.FP4:
                return elements // 2 + elements // FP4_BLOCK

    def gguf_type(self, experts: str) -> str:
        """What the pinned converter makes of it; routed experts are of the type asked for."""
        match self.source:
            case Source.FP4:
                return experts
            case Source.FP8:
                return "q8_0"
            case Source.I64:
                return "i32"
            case Source.BF16 if len(self.shape) > 1:
                return "bf16"
            case _:
                return "f32"


def official_tensors(*, nextn: bool = False) -> Iterator[OfficialTensor]:
    """All tensors of the model, and of its MTP block where asked."""
    yield OfficialTensor("token_embd.weight", (HIDDEN, VOCABULARY), Source.BF16)
    yield OfficialTensor("output_norm.weight", (HIDDEN,), Source.BF16)
    yield OfficialTensor("output.weight", (HIDDEN, VOCABULARY), Source.BF16)
    yield from _stream_head("output_hc")
    for layer in range(N_LAYERS):
        yield from _block(layer, COMPRESS_RATIOS[layer], is_hashed=layer < HASH_LAYERS)
    if nextn:
        yield from _block(N_LAYERS, COMPRESS_RATIOS[N_LAYERS], is_hashed=False)
        yield from _nextn_block(f"blk.{N_LAYERS}.nextn")


def _stream_head(prefix: str) -> Iterator[OfficialTensor]:
    yield OfficialTensor(f"{prefix}_fn.weight", (STREAMS * HIDDEN, STREAMS), Source.F32)
    yield OfficialTensor(f"{prefix}_base.weight", (STREAMS,), Source.F32)
    yield OfficialTensor(f"{prefix}_scale.weight", (1,), Source.F32)


def _block(layer: int, ratio: int, *, is_hashed: bool) -> Iterator[OfficialTensor]:
    prefix = f"blk.{layer}"
    yield from _attention(prefix)
    for part in ("attn", "ffn"):
        yield OfficialTensor(f"{prefix}.hc_{part}_fn.weight", (STREAMS * HIDDEN, STREAM_MIXES), Source.F32)
        yield OfficialTensor(f"{prefix}.hc_{part}_base.weight", (STREAM_MIXES,), Source.F32)
        yield OfficialTensor(f"{prefix}.hc_{part}_scale.weight", (3,), Source.F32)
    if ratio:
        overlap = 2 if ratio == 4 else 1
        yield from _compressor(f"{prefix}.attn_compressor", HEAD_WIDTH, overlap, ratio)
    if ratio == 4:
        yield OfficialTensor(f"{prefix}.indexer.proj.weight", (HIDDEN, INDEXER_HEADS), Source.BF16)
        queries = (Q_LORA, INDEXER_HEADS * INDEXER_WIDTH)
        yield OfficialTensor(f"{prefix}.indexer.attn_q_b.weight", queries, Source.FP8)
        yield from _compressor(f"{prefix}.indexer_compressor", INDEXER_WIDTH, 2, ratio)
    yield from _experts(prefix, is_hashed=is_hashed)


def _attention(prefix: str) -> Iterator[OfficialTensor]:
    group_width = HEADS * HEAD_WIDTH // OUTPUT_GROUPS
    yield OfficialTensor(f"{prefix}.attn_norm.weight", (HIDDEN,), Source.BF16)
    yield OfficialTensor(f"{prefix}.attn_sinks.weight", (HEADS,), Source.F32)
    yield OfficialTensor(f"{prefix}.attn_q_a.weight", (HIDDEN, Q_LORA), Source.FP8)
    yield OfficialTensor(f"{prefix}.attn_q_a_norm.weight", (Q_LORA,), Source.BF16)
    yield OfficialTensor(f"{prefix}.attn_q_b.weight", (Q_LORA, HEADS * HEAD_WIDTH), Source.FP8)
    yield OfficialTensor(f"{prefix}.attn_kv.weight", (HIDDEN, HEAD_WIDTH), Source.FP8)
    yield OfficialTensor(f"{prefix}.attn_kv_a_norm.weight", (HEAD_WIDTH,), Source.BF16)
    yield OfficialTensor(f"{prefix}.attn_output_a.weight", (group_width, OUTPUT_GROUPS * OUTPUT_LORA), Source.FP8)
    yield OfficialTensor(f"{prefix}.attn_output_b.weight", (OUTPUT_GROUPS * OUTPUT_LORA, HIDDEN), Source.FP8)


def _compressor(prefix: str, width: int, overlap: int, ratio: int) -> Iterator[OfficialTensor]:
    yield OfficialTensor(f"{prefix}_kv.weight", (HIDDEN, overlap * width), Source.BF16)
    yield OfficialTensor(f"{prefix}_gate.weight", (HIDDEN, overlap * width), Source.BF16)
    yield OfficialTensor(f"{prefix}_ape.weight", (overlap * width, ratio), Source.F32)
    yield OfficialTensor(f"{prefix}_norm.weight", (width,), Source.BF16)


def _experts(prefix: str, *, is_hashed: bool) -> Iterator[OfficialTensor]:
    yield OfficialTensor(f"{prefix}.ffn_gate_inp.weight", (HIDDEN, EXPERTS), Source.BF16)
    if is_hashed:
        yield OfficialTensor(f"{prefix}.ffn_gate_tid2eid.weight", (EXPERTS_USED, VOCABULARY), Source.I64)
    else:
        yield OfficialTensor(f"{prefix}.exp_probs_b.bias", (EXPERTS,), Source.F32)
    yield OfficialTensor(f"{prefix}.ffn_norm.weight", (HIDDEN,), Source.BF16)
    for kind, columns, rows in (
        ("gate", HIDDEN, EXPERT_WIDTH),
        ("down", EXPERT_WIDTH, HIDDEN),
        ("up", HIDDEN, EXPERT_WIDTH),
    ):
        yield OfficialTensor(f"{prefix}.ffn_{kind}_exps.weight", (columns, rows, EXPERTS), Source.FP4)
        yield OfficialTensor(f"{prefix}.ffn_{kind}_shexp.weight", (columns, rows), Source.FP8)


def _nextn_block(prefix: str) -> Iterator[OfficialTensor]:
    yield OfficialTensor(f"{prefix}.eh_proj.weight", (2 * HIDDEN, HIDDEN), Source.FP8)
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        yield OfficialTensor(f"{prefix}.{norm}.weight", (HIDDEN,), Source.BF16)


def metadata(*, nextn: bool = False) -> dict[str, Value]:
    """What the pinned loader reads of a deepseek4 model."""
    blocks = N_LAYERS + nextn
    keys: dict[str, Value] = {
        "block_count": blocks,
        "context_length": CONTEXT,
        "embedding_length": HIDDEN,
        "embedding_length_out": STREAMS * HIDDEN,
        "vocab_size": VOCABULARY,
        "attention.head_count": HEADS,
        "attention.head_count_kv": 1,
        "attention.key_length": HEAD_WIDTH,
        "attention.value_length": HEAD_WIDTH,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.q_lora_rank": Q_LORA,
        "attention.sliding_window": WINDOW,
        "attention.output_group_count": OUTPUT_GROUPS,
        "attention.output_lora_rank": OUTPUT_LORA,
        "attention.compress_ratios": COMPRESS_RATIOS,
        "attention.compress_rope_freq_base": 160_000.0,
        "attention.indexer.head_count": INDEXER_HEADS,
        "attention.indexer.key_length": INDEXER_WIDTH,
        "attention.indexer.top_k": INDEXER_TOP_K,
        "rope.dimension_count": 64,
        "rope.freq_base": 10_000.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 16.0,
        "rope.scaling.original_context_length": 65_536,
        "rope.scaling.yarn_beta_fast": 32.0,
        "rope.scaling.yarn_beta_slow": 1.0,
        "expert_count": EXPERTS,
        "expert_used_count": EXPERTS_USED,
        "expert_shared_count": 1,
        "expert_feed_forward_length": EXPERT_WIDTH,
        "expert_gating_func": 4,  # square root of softplus
        "expert_weights_scale": 1.5,
        "expert_weights_norm": True,
        "swiglu_clamp_exp": (10.0,) * blocks,
        "swiglu_clamp_shexp": (10.0,) * blocks,
        "hash_layer_count": HASH_LAYERS,
        "hyper_connection.count": STREAMS,
        "hyper_connection.sinkhorn_iterations": 20,
        "hyper_connection.epsilon": 1e-6,
    }
    if nextn:
        keys["nextn_predict_layers"] = 1
    general: dict[str, Value] = {
        "general.architecture": ARCHITECTURE,
        "general.name": "DeepSeek V4 Flash",
        "general.license": "mit",
    }
    return general | {f"{ARCHITECTURE}.{key}": value for key, value in keys.items()} | _tokenizer()


def _tokenizer() -> dict[str, Value]:
    """A vocabulary of the model's size whose tokens mean nothing."""
    tokens = [f"t{number:06x}" for number in range(VOCABULARY)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "joyai-llm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * VOCABULARY,
        "tokenizer.ggml.merges": [f"t {number:06x}" for number in range(MERGES)],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
    }


def gguf_tensors(*, nextn: bool = False, experts: str = "mxfp4") -> list[HeaderTensor]:
    """The tensors of the GGUF, in the file's order."""
    return [HeaderTensor(one.name, one.shape, one.gguf_type(experts)) for one in official_tensors(nextn=nextn)]


def write_deepseek_v4_flash(path: Path, *, nextn: bool = False, experts: str = "mxfp4", is_cut: bool = False) -> Path:
    """Write the header; a file of full length that is one hole, or, where `is_cut`, one that ends with its header."""
    return write_header(path, metadata(nextn=nextn), gguf_tensors(nextn=nextn, experts=experts), is_cut=is_cut)


def write_deepseek_v4_flash_parts(folder: Path, count: int, *, experts: str = "mxfp4", nextn: bool = False) -> Path:
    """Write `count` parts, the first of metadata only, the tensors shared out in order; the first part's path."""
    tensors = gguf_tensors(experts=experts, nextn=nextn)
    share = -(-len(tensors) // (count - 1))
    paths = [folder / f"DeepSeek-V4-Flash-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    for number, path in enumerate(paths):
        split: dict[str, Value] = {"split.no": number, "split.count": count, "split.tensors.count": len(tensors)}
        part = [] if number == 0 else tensors[(number - 1) * share : number * share]
        write_header(path, (metadata(nextn=nextn) if number == 0 else {}) | split, part)
    return paths[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--cut", action="store_true", help="end the file with its header")
    parser.add_argument("--nextn", action="store_true", help="with the MTP block")
    parser.add_argument("--experts", default="mxfp4", help="type of the routed experts (mxfp4)")
    given = parser.parse_args()
    write_deepseek_v4_flash(given.path, nextn=given.nextn, experts=given.experts, is_cut=given.cut)


if __name__ == "__main__":
    main()

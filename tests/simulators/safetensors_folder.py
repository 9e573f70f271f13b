"""A GGUF model of the dense family as a folder of safetensors: the same weights, for engines that read such folders.

Names and the order of rows in Q and K are those that transformers gives these architectures. Weights are dequantised,
so that a folder of float32 holds exactly what a GGUF reader computes with.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from meshnet.artifact.gguf import read_header

# Files of about so many bytes, so that a range's tensors lie in some of them.
FILE_BYTES: Final = 64 * 2**20
_WHOLE: Final = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PARTS: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_TENSOR: Final = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


def write_safetensors_folder(
    source: Path, folder: Path, *, dtype: torch.dtype = torch.float32, file_bytes: int = FILE_BYTES
) -> Path:
    """Write `source` (llama, qwen2 or qwen3) into `folder` and return it. Its tensors are held in memory for the time.

    Raises:
        ValueError: a tensor has no name there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header = read_header(source)
    heads = {
        "attn_q": header.number(f"{header.architecture}.attention.head_count"),
        "attn_k": header.number(f"{header.architecture}.attention.head_count_kv"),
    }
    tensors: dict[str, torch.Tensor] = {}
    factors: list[float] = []
    files = held = 0
    for tensor in gguf.GGUFReader(source).tensors:
        values = np.array(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32)
        if tensor.name == "rope_freqs.weight":
            factors = values.tolist()
            continue
        if header.architecture == "llama" and (part := _LAYER_TENSOR.fullmatch(tensor.name)) and part[2] in heads:
            values = _in_halves(values, heads[part[2]])
        tensors[_name(tensor.name)] = torch.from_numpy(np.ascontiguousarray(values)).to(dtype)
        held += tensors[_name(tensor.name)].nbytes
        if held >= file_bytes:
            save_file(tensors, folder / f"model-{files:05}.safetensors")
            tensors, held, files = {}, 0, files + 1
    if tensors:
        save_file(tensors, folder / f"model-{files:05}.safetensors")
    (folder / "config.json").write_text(json.dumps(_config(source, factors)))
    return folder


def _name(name: str) -> str:
    if name in _WHOLE:
        return _WHOLE[name]
    part = _LAYER_TENSOR.fullmatch(name)
    if part is None or part[2] not in _PARTS:
        raise ValueError(f"{name} has no name in a folder of safetensors")
    return f"model.layers.{part[1]}.{_PARTS[part[2]]}.{part[3]}"


def _in_halves(matrix: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of each head so that rope turns i with i + half; llama's GGUF files have the two beside each other."""
    rows = len(matrix) // heads
    return matrix.reshape(heads, rows // 2, 2, -1).swapaxes(1, 2).reshape(matrix.shape)


def _config(source: Path, factors: list[float]) -> dict[str, Any]:
    header = read_header(source)
    architecture, metadata = header.architecture, header.metadata
    heads = header.number(f"{architecture}.attention.head_count")
    context_length = header.context_length
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": metadata[f"{architecture}.rope.freq_base"]}
    if factors:
        # Factors that no short name stands for: the kind of rope that lists them.
        rope |= {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0}
        rope |= {"original_max_position_embeddings": context_length, "factor": 1.0}
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    return {
        "architectures": [f"{architecture.capitalize()}ForCausalLM"],
        "model_type": architecture,
        "hidden_size": header.embedding_length,
        "intermediate_size": shapes["blk.0.ffn_gate.weight"][1],
        "num_hidden_layers": header.n_layers,
        "num_attention_heads": heads,
        "num_key_value_heads": header.number(f"{architecture}.attention.head_count_kv"),
        "head_dim": shapes["blk.0.attn_q.weight"][1] // heads,
        "hidden_act": "silu",
        "max_position_embeddings": context_length,
        "rms_norm_eps": metadata[f"{architecture}.attention.layer_norm_rms_epsilon"],
        "rope_parameters": rope,
        "tie_word_embeddings": "output.weight" not in shapes,
        "vocab_size": shapes["token_embd.weight"][1],
    }

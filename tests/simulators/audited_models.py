"""Headers of audited models: their published figures as metadata, and no tensors.

Sources, and what could not be verified, are told in docs/models. Run as a program it writes one:
`python -m tests.simulators.audited_models NAME PATH`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from tests.simulators.gguf_header import Value, write_header

GLM_5_2: Final[dict[str, Value]] = {
    "block_count": 79,
    "nextn_predict_layers": 1,
    "context_length": 1_048_576,
    "embedding_length": 6144,
    "attention.head_count": 64,
    "attention.head_count_kv": 1,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 256,
    "attention.value_length_mla": 256,
    "attention.q_lora_rank": 2048,
    "attention.kv_lora_rank": 512,
    "attention.indexer.head_count": 32,
    "attention.indexer.key_length": 128,
    "attention.indexer.top_k": 2048,
    "leading_dense_block_count": 3,
    "expert_count": 256,
    "expert_used_count": 8,
    "expert_shared_count": 1,
    "expert_feed_forward_length": 2048,
}
ORNITH_397B: Final[dict[str, Value]] = {
    "block_count": 60,
    "context_length": 262_144,
    "embedding_length": 4096,
    "attention.head_count": 32,
    "attention.head_count_kv": 2,
    "attention.key_length": 256,
    "attention.value_length": 256,
    "ssm.conv_kernel": 4,
    "ssm.state_size": 128,
    "ssm.group_count": 16,
    "ssm.time_step_rank": 64,
    "ssm.inner_size": 8192,
    "full_attention_interval": 4,
    "expert_count": 512,
    "expert_used_count": 10,
    "expert_feed_forward_length": 1024,
}
MODELS: Final = {"glm-5.2": ("glm-dsa", GLM_5_2), "ornith-1.0-397b": ("qwen35moe", ORNITH_397B)}


def write_audited_model(name: str, path: Path) -> Path:
    """Write the metadata of an audited model."""
    architecture, figures = MODELS[name]
    metadata: dict[str, Value] = {"general.architecture": architecture, "general.name": name}
    return write_header(path, metadata | {f"{architecture}.{key}": value for key, value in figures.items()}, [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("path", type=Path)
    given = parser.parse_args()
    write_audited_model(given.name, given.path)


if __name__ == "__main__":
    main()

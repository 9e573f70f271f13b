"""A model file of a few KiB for the FakeEngine, so that catalog, vocabulary and node treat it like any other GGUF.

Run as a program it writes one: `python -m tests.simulators.fake_model PATH [--layers 8] [--width 16] [--context 4096]`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

from tests.simulators.fake_engine import BOS_TOKEN_ID, DEFAULT_WIDTH, END_TOKEN_ID, VOCAB_SIZE

ARCHITECTURE = "fake"
DEFAULT_LAYERS = 8
DEFAULT_CONTEXT_LENGTH = 4096
CONTROL_TOKENS = ("<s>", "</s>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|assistant|>' if message.role == 'assistant' else '<|user|>' }}{{ message.content }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_fake_model(
    path: Path,
    *,
    n_layers: int = DEFAULT_LAYERS,
    width: int = DEFAULT_WIDTH,
    context_length: int = DEFAULT_CONTEXT_LENGTH,
    name: str = "Fake",
) -> Path:
    """Write the file and return its path. Equal arguments give equal bytes."""
    writer = GGUFWriter(path, ARCHITECTURE)
    writer.add_name(name)
    writer.add_block_count(n_layers)
    writer.add_embedding_length(width)
    writer.add_context_length(context_length)
    _add_vocabulary(writer)
    _add_tensors(writer, n_layers, width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: GGUFWriter) -> None:
    tokens = [f"<0x{byte:02X}>" for byte in range(256)] + list(CONTROL_TOKENS)
    types = [TokenType.BYTE] * 256 + [TokenType.CONTROL] * len(CONTROL_TOKENS)
    if len(tokens) != VOCAB_SIZE:
        raise ValueError(f"{len(tokens)} tokens in a vocabulary of {VOCAB_SIZE}")
    writer.add_tokenizer_model("fake-bytes")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_bos_token_id(BOS_TOKEN_ID)
    writer.add_eos_token_id(END_TOKEN_ID)
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_tensors(writer: GGUFWriter, n_layers: int, width: int) -> None:
    """Weights that nothing reads; they give layers sizes and places, and other shapes other digests."""
    writer.add_tensor("token_embd.weight", np.zeros((VOCAB_SIZE, width), dtype=np.float32))
    for layer in range(n_layers):
        writer.add_tensor(f"blk.{layer}.weight", np.full((width, width), layer, dtype=np.float32))
    writer.add_tensor("output_norm.weight", np.ones(width, dtype=np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--layers", type=int, default=DEFAULT_LAYERS)
    parser.add_argument("--width", type=int, default=DEFAULT_WIDTH)
    parser.add_argument("--context", type=int, default=DEFAULT_CONTEXT_LENGTH)
    given = parser.parse_args()
    write_fake_model(given.path, n_layers=given.layers, width=given.width, context_length=given.context)


if __name__ == "__main__":
    main()

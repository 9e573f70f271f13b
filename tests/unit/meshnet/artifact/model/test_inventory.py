"""Every tensor has one owner, and ranges add up to the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.artifact.gguf import read_header
from meshnet.artifact.model.inventory import Owner, bytes_by_type, owned_by, owner_of, take_inventory
from tests.simulators.deepseek_v4_flash import N_LAYERS, write_deepseek_v4_flash
from tests.unit.meshnet.artifact.model.headers import TENSOR_BYTES, a_header, block_names

OWNERS = {
    "token_embd.weight": Owner.HEAD,
    "token_embd_norm.weight": Owner.HEAD,
    "per_layer_token_embd.weight": Owner.HEAD,
    "blk.0.attn_q.weight": Owner.LAYER,
    "blk.3.ffn_down.weight": Owner.LAYER,
    "blk.4.attn_q.weight": Owner.NEXTN,
    "blk.4.nextn.eh_proj.weight": Owner.NEXTN,
    "output_norm.weight": Owner.TAIL,
    "output.weight": Owner.TAIL,
    "output.bias": Owner.TAIL,
    "output_hc_fn.weight": Owner.TAIL,
    "cls.output.weight": Owner.TAIL,
    "rope_freqs.weight": Owner.EVERY_STAGE,
    "rope_factors_long.weight": Owner.EVERY_STAGE,
}


@pytest.mark.parametrize(("name", "owner"), OWNERS.items())
def test_who_owns_a_tensor(name: str, owner: Owner) -> None:
    assert owner_of(name, 4) is owner


def test_the_stages_of_a_model_add_up_to_it(tmp_path: Path) -> None:
    header = a_header(tmp_path, "llama")
    inventory = take_inventory(header)
    for cut in range(1, 4):
        parts = inventory.weight_bytes(0, cut) + inventory.weight_bytes(cut, 4)
        assert parts == inventory.weight_bytes(0, 4) == sum(tensor.size_bytes for tensor in header.tensors)
    assert inventory.weight_bytes(1, 3) == 2 * TENSOR_BYTES


def test_a_tied_embedding_is_counted_once_on_one_machine_and_twice_on_two(tmp_path: Path) -> None:
    header = a_header(tmp_path, "llama", names=["token_embd.weight", *block_names(4), "output_norm.weight"])
    inventory = take_inventory(header)
    assert inventory.tied_bytes == TENSOR_BYTES
    assert inventory.weight_bytes(0, 4) == 6 * TENSOR_BYTES
    assert inventory.weight_bytes(0, 2) + inventory.weight_bytes(2, 4) == 7 * TENSOR_BYTES
    assert "token_embd.weight" in {tensor.name for tensor in owned_by(header, 2, 4)}


def test_what_a_range_owns_is_what_is_summed(tmp_path: Path) -> None:
    names = ["rope_freqs.weight", "token_embd.weight", *block_names(4), "output_norm.weight", "output.weight"]
    header = a_header(tmp_path, "llama", names=names)
    inventory = take_inventory(header)
    ranges = [(begin, end) for begin in range(4) for end in range(begin + 1, 5)]
    for begin, end in ranges:
        owned = owned_by(header, begin, end)
        assert sum(tensor.size_bytes for tensor in owned) == inventory.weight_bytes(begin, end)
        assert "rope_freqs.weight" in {tensor.name for tensor in owned}
    assert len(ranges) == 10


def test_nextn_blocks_are_the_tails_and_bring_the_embedding_with_them(tmp_path: Path) -> None:
    names = ["token_embd.weight", *block_names(5), "blk.4.nextn.eh_proj.weight", "output_norm.weight", "output.weight"]
    header = a_header(tmp_path, "glm4moe", 5, {"nextn_predict_layers": 1}, names=names)
    inventory = take_inventory(header)
    assert (header.n_layers, header.n_blocks, inventory.nextn.tensors) == (4, 5, 2)
    assert inventory.nextn_embedding_bytes == TENSOR_BYTES
    without, with_it = (inventory.weight_bytes(2, 4, with_nextn=nextn) for nextn in (False, True))
    assert with_it - without == 2 * TENSOR_BYTES + TENSOR_BYTES
    # The whole model has the embedding anyhow, and other stages have nothing of it.
    assert inventory.weight_bytes(0, 4, with_nextn=True) == sum(tensor.size_bytes for tensor in header.tensors)
    assert inventory.weight_bytes(0, 2, with_nextn=True) == inventory.weight_bytes(0, 2)


def test_a_nextn_block_with_an_embedding_of_its_own_does_not_need_the_heads(tmp_path: Path) -> None:
    names = ["token_embd.weight", *block_names(5), "blk.4.nextn.embed_tokens.weight", "output.weight"]
    header = a_header(tmp_path, "glm4moe", 5, {"nextn_predict_layers": 1}, names=names)
    assert take_inventory(header).nextn_embedding_bytes == 0


def test_one_block_of_two_without_an_embedding_of_its_own_needs_the_heads(tmp_path: Path) -> None:
    nextn = [f"blk.{block}.nextn.eh_proj.weight" for block in (4, 5)]
    names = ["token_embd.weight", *block_names(6), *nextn, "blk.5.nextn.embed_tokens.weight", "output.weight"]
    header = a_header(tmp_path, "glm4moe", 6, {"nextn_predict_layers": 2}, names=names)
    assert take_inventory(header).nextn_embedding_bytes == TENSOR_BYTES


def test_the_target_with_its_mtp_block(tmp_path: Path) -> None:
    header = read_header(write_deepseek_v4_flash(tmp_path / "v4.gguf", nextn=True))
    inventory = take_inventory(header)
    assert (header.n_layers, header.n_blocks, len(inventory.layers)) == (N_LAYERS, N_LAYERS + 1, N_LAYERS)
    assert inventory.nextn.tensors == 28
    assert inventory.nextn_embedding_bytes == inventory.head.size_bytes


def test_deepseek4_announces_blocks_that_the_file_may_not_hold(tmp_path: Path) -> None:
    header = a_header(tmp_path, "deepseek4", 4, {"nextn_predict_layers": 1})
    assert (header.n_layers, header.n_nextn) == (4, 0)


def test_types_are_summed_the_largest_first(tmp_path: Path) -> None:
    header = a_header(tmp_path, "llama")
    ((name, held),) = bytes_by_type(header.tensors).items()
    assert (name, held.tensors, held.size_bytes) == ("f32", 7, 7 * TENSOR_BYTES)

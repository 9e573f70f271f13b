"""What layers keep, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meshnet.artifact.gguf import read_header
from meshnet.artifact.model.caches import read_caches
from meshnet.artifact.model.memory import Load, cache_bytes
from meshnet.errors import ArtifactError
from tests.simulators.deepseek_v4_flash import write_deepseek_v4_flash
from tests.unit.meshnet.artifact.model.headers import a_header

if TYPE_CHECKING:
    from tests.simulators.gguf_header import Value

HEADS: dict[str, Value] = {"attention.head_count": 4, "attention.head_count_kv": 2}
KV_BYTES = 2 * (16 + 16) * 2


def test_keys_and_values_of_every_layer(tmp_path: Path) -> None:
    caches = read_caches(a_header(tmp_path, "llama", 3, HEADS))
    assert caches.is_known
    assert (caches.bytes_per_token, caches.window_bytes) == (3 * KV_BYTES, 0)
    # 1,000 positions take 1,024 cells, in each of two sessions.
    assert cache_bytes(caches.layers[1:3], Load(1000, 2)) == 2 * 2 * 1024 * KV_BYTES


def test_heads_and_widths_may_be_given_otherwise(tmp_path: Path) -> None:
    figures: dict[str, Value] = {"attention.head_count": 4, "attention.key_length": 8, "attention.value_length": 4}
    assert read_caches(a_header(tmp_path, "qwen3", 2, figures)).bytes_per_token == 2 * 4 * 12 * 2
    by_layer = figures | {"attention.head_count_kv": [1, 0, 2]}
    layers = read_caches(a_header(tmp_path, "qwen3", 3, by_layer)).layers
    assert [layer.bytes_per_token for layer in layers] == [24, 0, 48]


@pytest.mark.parametrize(("architecture", "full"), [("gpt-oss", [1, 3, 5, 7]), ("gemma3", [5])])
def test_windows_grow_to_their_size_and_one_ubatch(architecture: str, full: list[int], tmp_path: Path) -> None:
    caches = read_caches(a_header(tmp_path, architecture, 8, HEADS | {"attention.sliding_window": 128}))
    assert [number for number, layer in enumerate(caches.layers) if layer.bytes_per_token] == full
    windows = 8 - len(full)
    # 128 and 512 positions, padded to 768.
    assert caches.window_bytes == windows * 768 * KV_BYTES
    assert cache_bytes(caches.layers, Load(512, 1)) == 8 * 512 * KV_BYTES
    assert cache_bytes(caches.layers, Load(4096, 2)) == 2 * (len(full) * 4096 + windows * 768) * KV_BYTES


@pytest.mark.parametrize(
    ("pattern", "full"),
    [([1, 1, 0, 1], [2]), ([1, 1, 1, 1], []), ([0, 0, 0, 0], [0, 1, 2, 3]), (1, [0, 1, 2, 3]), (2, [1, 3]), (0, [])],
)
def test_windows_by_flags_or_by_period(pattern: Value, full: list[int], tmp_path: Path) -> None:
    figures: dict[str, Value] = {"attention.sliding_window": 128, "attention.sliding_window_pattern": pattern}
    caches = read_caches(a_header(tmp_path, "gemma3", 4, HEADS | figures))
    assert [number for number, layer in enumerate(caches.layers) if layer.bytes_per_token] == full


def test_latent_attention_keeps_one_row(tmp_path: Path) -> None:
    figures: dict[str, Value] = {
        "attention.head_count": 4,
        "attention.key_length": 576,
        "attention.key_length_mla": 192,
    }
    assert read_caches(a_header(tmp_path, "deepseek2", 2, figures)).bytes_per_token == 2 * 576 * 2


def test_indexer_keys_are_kept_where_there_is_an_indexer(tmp_path: Path) -> None:
    figures: dict[str, Value] = {
        "attention.key_length": 576,
        "attention.indexer.key_length": 128,
        "attention.indexer.types": [1, 0, 0, 0],
    }
    caches = read_caches(a_header(tmp_path, "glm-dsa", 4, figures))
    assert [layer.bytes_per_token for layer in caches.layers] == [2 * (576 + 128), *[2 * 576] * 3]


def test_recurrent_layers_keep_a_state_of_fixed_size(tmp_path: Path) -> None:
    figures: dict[str, Value] = HEADS | {
        "ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16, "ssm.group_count": 2, "ssm.time_step_rank": 4,
    }  # fmt: skip
    caches = read_caches(a_header(tmp_path, "qwen35", 8, figures))
    state = (3 * (64 + 2 * 2 * 16) + 16 * 64) * 4
    assert [layer.state_bytes for layer in caches.layers] == [state, state, state, 0] * 2
    assert caches.bytes_per_token == 2 * KV_BYTES
    assert cache_bytes(caches.layers[:3], Load(4096, 5)) == 3 * 5 * state
    named = figures | {"attention.recurrent_layers": [1, 0, 1, 0, 1, 0, 1, 0]}
    assert [bool(layer.state_bytes) for layer in read_caches(a_header(tmp_path, "qwen35moe", 8, named)).layers] == [
        True, False, True, False, True, False, True, False,
    ]  # fmt: skip


def test_the_target_keeps_what_is_published_of_it(tmp_path: Path) -> None:
    caches = read_caches(read_header(write_deepseek_v4_flash(tmp_path / "v4.gguf")))
    assert caches.bytes_per_token == 6880
    assert caches.window_bytes == 43 * 768 * 512 * 2
    assert {layer.bytes_per_token for layer in caches.layers} == {0, 320, 8}


def test_an_unknown_architecture_is_called_so(tmp_path: Path) -> None:
    caches = read_caches(a_header(tmp_path, "mamba", 2, HEADS))
    assert not caches.is_known
    assert caches.bytes_per_token == 2 * KV_BYTES


@pytest.mark.parametrize(
    "figures",
    [
        {"attention.head_count": "four"},
        {"attention.head_count": [4, 4]},
        {"attention.head_count": 4, "attention.key_length": 1.5},
    ],
)
def test_figures_that_are_none_are_refused(figures: dict[str, Value], tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="bad_metadata"):
        read_caches(a_header(tmp_path, "llama", 4, figures))

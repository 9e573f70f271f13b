"""What is read from the kernel's list of mappings."""

from __future__ import annotations

import pytest

from tests.bench.resident import LARGE_BYTES, Memory, ResidentWeights, read_smaps

KIB = 1024
SMAPS = f"""\
55d0c0000000-55d0c0800000 rw-p 00000000 00:00 0                          [heap]
Size:               8192 kB
Rss:                8192 kB
7f0000000000-7f0001000000 r--s 00100000 fe:00 4711                       /models/a b.gguf
Size:              16384 kB
Rss:                1000 kB
Pss:                1000 kB
7f0002000000-7f0003000000 rw-p 00000000 00:00 0{" "}
Rss:               {LARGE_BYTES // KIB} kB
7f0004000000-7f0004100000 rw-p 00000000 00:00 0{" "}
Rss:                1024 kB
7f0005000000-7f0006000000 r-xp 00000000 fe:00 4712                       /lib/libllama.so
Rss:               12000 kB
"""


def test_the_models_pages_and_large_anonymous_mappings_are_told_apart_from_the_rest() -> None:
    memory = read_smaps(SMAPS.splitlines(keepends=True), "a b.gguf")
    assert memory.file_bytes == 1000 * KIB
    assert memory.anonymous_bytes == LARGE_BYTES
    assert memory.total_bytes == (8192 + 1000 + 1024 + 12000) * KIB + LARGE_BYTES


def test_an_empty_list_holds_nothing() -> None:
    assert read_smaps([], "a") == Memory(0, 0, 0)


def test_cache_and_graph_are_no_weights() -> None:
    weights = ResidentWeights(Memory(100, 400, 900), owned_bytes=400, other_bytes=80)
    assert weights.ratio == pytest.approx(1.05)
    assert weights.report()["ratio"] == 1.05

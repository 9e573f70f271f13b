"""The Python bindings load the same shared library as the worker."""

import json
from pathlib import Path

import pytest

NATIVE_BIN = Path(__file__).resolve().parents[2] / "build/native/cpu/bin"

pytestmark = [pytest.mark.llama, pytest.mark.native]


def test_the_bindings_use_our_build():
    import llama_cpp

    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libllama" in line}
    assert {Path(path).parent for path in loaded} == {NATIVE_BIN}
    assert b"AVX2 = 1" in llama_cpp.llama_print_system_info() or "aarch64" in json.dumps(list(loaded))

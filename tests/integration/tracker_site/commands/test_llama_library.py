"""`meshnet site import-model` of a real model, by an administrator who names no library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
MODEL = Path(os.environ.get("MESHNET_TEST_MODEL", ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
PROGRAM = [sys.executable, "-c", "import sys; from tracker_site.commands import main; sys.exit(main(sys.argv[1:]))"]

pytestmark = [pytest.mark.llama, pytest.mark.native]


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    ours = ("MESHNET_", "DJANGO_", "LLAMA_CPP_LIB_PATH")
    own = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment = {**own, "MESHNET_SITE_DATA": str(folder), **variables}
    return subprocess.run(
        [*PROGRAM, *arguments, "--json"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if not MODEL.is_file():
        pytest.skip("no test model: run `make bootstrap`")
    assert run(tmp_path, "migrate").returncode == 0
    return tmp_path


def test_the_library_of_the_checkout_is_found(folder: Path) -> None:
    done = run(folder, "import-model", str(MODEL), "--name", "small")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["vocab_size"] == 49152


def test_a_folder_without_the_library_is_told_with_the_one_that_has_it(folder: Path) -> None:
    done = run(folder, "import-model", str(MODEL), LLAMA_CPP_LIB_PATH=str(folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert "`make native` builds it into build/native/cpu/bin of Meshnet's folder" in done.stderr
    assert done.stderr.endswith(
        "if LLAMA_CPP_LIB_PATH is set, it must name the folder that holds the library. [llama_missing]\n"
    )

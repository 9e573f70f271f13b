"""Every served architecture on its tiny model: what the native program compared.

It compares engines at every cut with the whole model that the library loads its ordinary way.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.parity.architecture_counts import NativeRun, count_failures, read_report

NATIVE_TIMEOUT_S: Final = 900


def compare_natively(program: Path, folder: Path, models: Path) -> NativeRun:
    """Run the native comparison on every tiny model; `folder` holds its report.

    Raises:
        ValueError: it left no report; what failed is in what is returned.
        TimeoutError: it took too long.
    """
    report = folder / "architectures.json"
    command = [
        str(program),
        "--gtest_brief=1",
        "--gtest_filter=*/LlamaArchitectureTest.*",
        f"--gtest_output=json:{report}",
    ]
    try:
        status = subprocess.run(
            command,
            env={"MESHNET_TINY_MODELS": str(models)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=NATIVE_TIMEOUT_S,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"the native comparison took more than {NATIVE_TIMEOUT_S} s") from error
    if not report.is_file():
        raise ValueError(f"{program.name} ended with status {status} and left no report")
    found = json.loads(report.read_text(encoding="utf-8"))
    return NativeRun(read_report(found), status, count_failures(found))

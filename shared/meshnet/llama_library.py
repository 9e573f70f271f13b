"""Where llama.cpp's Python bindings find its shared library.

Invariant: what the environment names is used; only where it names nothing, a folder that holds the library is named for
it. The bindings come without a library of their own and read the variable when they are imported.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

# Read by llama-cpp-python.
LIBRARY_FOLDER: Final = "LLAMA_CPP_LIB_PATH"
WORKER_PROGRAM: Final = "meshnet-worker"
# Of a checkout; `make native` fills it.
BUILD_FOLDER: Final = Path("build/native/cpu/bin")


def built_folder() -> Path:
    """Where the checkout that this module belongs to has its native build, if it has one."""
    return Path(__file__).resolve().parents[2] / BUILD_FOLDER


def usual_folders() -> list[Path]:
    """Where a worker is looked for, the library being beside it: the checkout's build, then on PATH."""
    installed = shutil.which(WORKER_PROGRAM)
    return [built_folder(), *([Path(installed).resolve().parent] if installed else [])]


def name_library(environment: MutableMapping[str, str], folders: Iterable[Path]) -> None:
    """Let the bindings use the first of these folders that holds libllama, unless the environment names one."""
    for folder in folders:
        if any(folder.glob("libllama.*")):
            environment.setdefault(LIBRARY_FOLDER, str(folder))
            return

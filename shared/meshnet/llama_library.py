"""Tells llama.cpp's Python bindings which shared library to load.

The bindings (llama-cpp-python) come without a library. When they are imported, they read the library's folder from the
environment variable LLAMA_CPP_LIB_PATH. Invariant: if the variable is already set, it is left as it is.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

# Environment variable that llama-cpp-python reads.
LIBRARY_FOLDER: Final = "LLAMA_CPP_LIB_PATH"
WORKER_PROGRAM: Final = "meshnet-worker"
# Folder of a checkout that `make native` fills.
BUILD_FOLDER: Final = Path("build/native/cpu/bin")


def built_folder() -> Path:
    """Return the native build folder of the checkout that this module is in; it need not exist."""
    return Path(__file__).resolve().parents[2] / BUILD_FOLDER


def usual_folders() -> list[Path]:
    """Return folders that may hold libllama: the checkout's build, then that of a `meshnet-worker` on PATH."""
    installed = shutil.which(WORKER_PROGRAM)
    return [built_folder(), *([Path(installed).resolve().parent] if installed else [])]


def name_library(environment: MutableMapping[str, str], folders: Iterable[Path]) -> None:
    """Name the first folder that holds libllama in `environment`, unless that already names a folder."""
    for folder in folders:
        if any(folder.glob("libllama.*")):
            environment.setdefault(LIBRARY_FOLDER, str(folder))
            return

"""Tells llama.cpp's Python bindings which shared library to load.

Invariant: a folder that the environment names always wins. If it names none, the first folder that holds the library is
put into the environment. The bindings have no library of their own, and read the variable when they are imported.
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
    """Return the folders that may hold a worker and its library: the checkout's build, then the one on PATH."""
    installed = shutil.which(WORKER_PROGRAM)
    return [built_folder(), *([Path(installed).resolve().parent] if installed else [])]


def name_library(environment: MutableMapping[str, str], folders: Iterable[Path]) -> None:
    """Make the bindings use the first folder that holds libllama, unless the environment already names one."""
    for folder in folders:
        if any(folder.glob("libllama.*")):
            environment.setdefault(LIBRARY_FOLDER, str(folder))
            return

"""Judges Python, its packages, the limit of open files, the disk, the clock and the port at which peers dial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from node_app.doctor.findings import GIB, MIB, Finding, failed, ok, warning
from node_app.system.installing import installing, installing_qt, missing_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PYTHON_MIN: Final = (3, 11)
# A session of a relayed route takes a few descriptors; the worker's files and pools take the rest.
DESCRIPTORS_MIN: Final = 256
DESCRIPTORS_GOOD: Final = 1024
DISK_MIN_BYTES: Final = 64 * MIB
DISK_GOOD_BYTES: Final = GIB
# 2024-01-01, before this program was written. If the clock shows an earlier time, it was never set.
EPOCH_PLAUSIBLE_S: Final = 1_704_067_200

# Modules that a node needs, by the name that is imported.
NODE_MODULES: Final = (
    "cryptography",
    "google.protobuf",
    "grpc",
    "jinja2",
    "platformdirs",
    "psutil",
    "pydantic",
    "requests",
    "websockets",
)
_QT_MODULE: Final = "PySide6.QtWidgets"
# Optional modules: the consequence if the module is missing, and the advice.
OPTIONAL_MODULES: Final = {
    _QT_MODULE: ("meshnet-tray does not run", f"if you want the tray, {installing('tray')}"),
    "llama_cpp": (
        "this node cannot answer prompts by itself",
        f"if you want that, {installing('llama')} and set LLAMA_CPP_LIB_PATH to the folder of libllama",
    ),
}


def judge_python(version: tuple[int, int, int]) -> Finding:
    """Judge whether the interpreter is new enough."""
    text = ".".join(map(str, version))
    if version < PYTHON_MIN:
        return failed("python", f"version {text}", f"install Python {'.'.join(map(str, PYTHON_MIN))} or newer")
    return ok("python", f"version {text}")


def judge_modules(problems: Mapping[str, str]) -> Iterator[Finding]:
    """Judge whether the modules that a node needs, and the optional ones, can be imported.

    Args:
        problems: the name of each module that could not be imported, and the reason.
    """
    lacking = [name for name in NODE_MODULES if name in problems]
    if lacking:
        first = f"{lacking[0]}: {problems[lacking[0]]}"
        advice = _system_library_advice(lacking[0], problems[lacking[0]]) or installing("node")
        yield failed("packages", f"{', '.join(lacking)} cannot be imported ({first})", advice)
    else:
        yield ok("packages", f"all {len(NODE_MODULES)} of a node can be imported")
    for name, (consequence, advice) in OPTIONAL_MODULES.items():
        if name in problems:
            helps = _system_library_advice(name, problems[name]) or advice
            yield warning("packages", f"{consequence}: {problems[name]}", helps)


def _system_library_advice(module: str, problem: str) -> str:
    """Return advice if a module's import failed because a system library is missing, else an empty string."""
    library = missing_library(problem)
    if not library:
        return ""
    if module == _QT_MODULE:
        return f"if you want the tray, {installing_qt(problem)}"
    return f"install the system package that contains {library}"


def judge_descriptors(soft: int | None) -> Finding:
    """Judge the soft limit on the files and sockets that a process may have open; None means no limit."""
    if soft is None or soft >= DESCRIPTORS_GOOD:
        return ok("descriptors", f"{soft if soft is not None else 'any number of'} files and sockets a process")
    advice = f"raise the limit: ulimit -n {DESCRIPTORS_GOOD * 4}"
    judged = failed if soft < DESCRIPTORS_MIN else warning
    return judged("descriptors", f"only {soft} files and sockets a process", advice)


def judge_disk(path: str, free_bytes: int) -> Finding:
    """Judge the free space on the file system of the state directory.

    Args:
        path: the state directory, or the nearest folder above it that exists.
        free_bytes: bytes that are free there.
    """
    summary = f"{free_bytes / GIB:.1f} GiB free at {path}"
    if free_bytes < DISK_MIN_BYTES:
        return failed("disk", summary, "free some space, or name another folder with --state-dir")
    if free_bytes < DISK_GOOD_BYTES:
        return warning("disk", summary, "free some space soon")
    return ok("disk", summary)


def judge_clock(now_s: float) -> Finding:
    """Judge whether this machine's clock, which shows `now_s` in Unix time, was ever set."""
    if now_s < EPOCH_PLAUSIBLE_S:
        return warning("clock", "was never set", "set it: until then an https site's certificate seems not yet valid")
    return ok("clock", "plausible")


@dataclass(frozen=True, slots=True)
class ListenFacts:
    """Result of an attempt to listen for peers.

    Attributes:
        address: `host:port` that was tried; empty if no address of this machine leads to the site.
        problem: why listening failed; empty if it worked.
        is_asked: whether the volunteer named the address.
        is_node_running: whether a node of this state directory is running, which may hold the port.
    """

    address: str
    problem: str
    is_asked: bool
    is_node_running: bool


def judge_listening(facts: ListenFacts) -> Finding:
    """Judge whether this machine can listen for peers. Whether peers can reach it (firewalls) is not tested."""
    if not facts.address:
        return warning(
            "peers",
            "no peer can dial this node, so the relay carries everything",
            "if peers shall dial it, name an address with --link-listen",
        )
    if not facts.problem:
        port = "a free port" if facts.address.endswith(":0") else "the port is free"
        return ok("peers", f"can listen at {facts.address} ({port})")
    summary = f"cannot listen at {facts.address}: {facts.problem}"
    if facts.is_node_running:
        return warning("peers", summary, "nothing to do if the running node holds the port")
    asked = "name another --link-listen" if facts.is_asked else "name an address with --link-listen"
    return failed("peers", summary, f"{asked}, or use --carrier relay")

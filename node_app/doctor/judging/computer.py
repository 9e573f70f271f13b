"""Python, its packages, descriptors, disk and clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from node_app.doctor.findings import GIB, MIB, Finding, failed, ok, warning
from node_app.system.installing import installing, installing_qt, missing_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PYTHON_MIN: Final = (3, 11)
# A session of a relayed route takes a few; the rest is the worker's files and pools.
DESCRIPTORS_MIN: Final = 256
DESCRIPTORS_GOOD: Final = 1024
DISK_MIN_BYTES: Final = 64 * MIB
DISK_GOOD_BYTES: Final = GIB
# Before this was written (2024-01-01): the clock was never set.
EPOCH_PLAUSIBLE_S: Final = 1_704_067_200

# What each extra of the package brings, by the module that is imported.
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
# Of the others: what is not to be had without them, and what helps where it is wanted.
OPTIONAL_MODULES: Final = {
    _QT_MODULE: ("meshnet-tray does not run", f"where wanted, {installing('tray')}"),
    "llama_cpp": (
        "this node cannot answer prompts by itself",
        f"where wanted, {installing('llama')}; LLAMA_CPP_LIB_PATH names the folder of libllama",
    ),
}


def judge_python(version: tuple[int, int, int]) -> Finding:
    """Judge the interpreter."""
    text = ".".join(map(str, version))
    if version < PYTHON_MIN:
        return failed("python", f"version {text}", f"install Python {'.'.join(map(str, PYTHON_MIN))} or newer")
    return ok("python", f"version {text}")


def judge_modules(problems: Mapping[str, str]) -> Iterator[Finding]:
    """Judge which modules could be imported.

    Args:
        problems: by module, why it could not be.
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
    """Return what helps where the module is there and a library of the system is not; empty where it is not so."""
    library = missing_library(problem)
    if not library:
        return ""
    if module == _QT_MODULE:
        return f"where wanted, {installing_qt(problem)}"
    return f"install the system's package that brings {library}"


def judge_descriptors(soft: int | None) -> Finding:
    """Judge how many files and sockets a process may have open; None: no limit is known."""
    if soft is None or soft >= DESCRIPTORS_GOOD:
        return ok("descriptors", f"{soft if soft is not None else 'any number of'} files and sockets a process")
    advice = f"raise it: ulimit -n {DESCRIPTORS_GOOD * 4}"
    judged = failed if soft < DESCRIPTORS_MIN else warning
    return judged("descriptors", f"only {soft} files and sockets a process", advice)


def judge_disk(path: str, free_bytes: int) -> Finding:
    """Judge the room where the state is kept."""
    summary = f"{free_bytes / GIB:.1f} GiB free at {path}"
    if free_bytes < DISK_MIN_BYTES:
        return failed("disk", summary, "make room, or name another --state-dir")
    if free_bytes < DISK_GOOD_BYTES:
        return warning("disk", summary, "make room soon")
    return ok("disk", summary)


def judge_clock(now_s: float) -> Finding:
    """Judge the clock by itself; nothing but the certificates of an https site depends on it."""
    if now_s < EPOCH_PLAUSIBLE_S:
        return warning("clock", "was never set", "set it: an https site's certificate would not be valid yet")
    return ok("clock", "plausible")


@dataclass(frozen=True, slots=True)
class ListenFacts:
    """What became of listening for peers.

    Attributes:
        address: `host:port` that was tried; empty where there is no way towards the site.
        problem: why it could not be listened on; empty where it could.
        is_asked: the volunteer named the address.
        is_node_running: a node of this state directory may hold it.
    """

    address: str
    problem: str
    is_asked: bool
    is_node_running: bool


def judge_listening(facts: ListenFacts) -> Finding:
    """Judge whether peers may dial this machine; whether they get through is found out by trying."""
    if not facts.address:
        return warning("peers", "nobody may dial this node", "the relay carries everything; see --link-listen")
    if not facts.problem:
        port = "a free port" if facts.address.endswith(":0") else "the port is free"
        return ok("peers", f"can listen at {facts.address} ({port})")
    summary = f"cannot listen at {facts.address}: {facts.problem}"
    if facts.is_node_running:
        return warning("peers", summary, "nothing, where the running node holds it")
    asked = "name another --link-listen" if facts.is_asked else "name an address with --link-listen"
    return failed("peers", summary, f"{asked}, or use --carrier relay")

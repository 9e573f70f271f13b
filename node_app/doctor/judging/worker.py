"""The worker program: whether it runs here, and whether it is of these versions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet import __version__
from meshnet.constants import GRAPH_SEMANTICS_VERSION, WIRE_VERSION, WIRE_VERSION_MIN
from node_app.doctor.findings import GIB, Finding, failed, ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

# Digests are shown as far as a person compares them, other words as far as they fit a line.
DIGEST_SHOWN: Final = 12
FIELD_SHOWN: Final = 48
SIGILL: Final = 4
DEVICES_SHOWN: Final = 8
_BUILD: Final = "build it on this machine: make native"
# Around the one line with which a worker says what is not installed and, after a semicolon, what helps.
_OWN_WORDS: Final = "meshnet-worker: "
_MISSING_EXTRA: Final = " [missing_extra]"


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One run of a program.

    Attributes:
        exit_status: negative: the signal that ended it; None: it did not end in time.
        output: its standard output, bounded.
        error: the last line of its standard error.
    """

    exit_status: int | None
    output: bytes = b""
    error: str = ""


def _object(output: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _judge_run(check: str, run: ProgramRun) -> Finding | None:
    """Return what is wrong with the run itself, None where nothing is."""
    if run.exit_status is None:
        return failed(check, "the worker does not answer", _BUILD)
    if run.exit_status == -SIGILL:
        return failed(check, "the worker was built for another processor (illegal instruction)", _BUILD)
    if run.exit_status and run.error.endswith(_MISSING_EXTRA):
        what, _, advice = run.error.removeprefix(_OWN_WORDS).removesuffix(_MISSING_EXTRA).partition("; ")
        return failed(check, f"the worker cannot run: {what}", advice or "install it")
    if run.exit_status:
        return failed(check, f"the worker ended with status {run.exit_status}: {run.error}", _BUILD)
    return None


def judge_version(run: ProgramRun) -> Iterator[Finding]:
    """Judge `--version`: what must match on a route is shown and compared with this package."""
    wrong = _judge_run("worker", run)
    report = _object(run.output)
    if wrong is not None or report is None:
        yield wrong or failed("worker", "its --version is not JSON: is it a meshnet-worker?", _BUILD)
        return
    problem = _version_problem(report)
    if problem:
        yield failed("worker", problem, _BUILD)
    elif report.get("worker") != __version__:
        yield warning("worker", f"version {report.get('worker')}, and {__version__} here", _BUILD)
    else:
        yield ok("worker", f"version {__version__}, {_library(report)}, graphs {GRAPH_SEMANTICS_VERSION}")
    yield ok("exact class", _exact_class(report))


def _library(report: dict[str, object]) -> str:
    """What the worker computes with."""
    found = next((name for name in ("ggml", "torch") if name in report), None)
    return "no library named" if found is None else f"{found} {str(report[found])[:FIELD_SHOWN]}"


def _version_problem(report: dict[str, object]) -> str:
    wire, contract = report.get("wire"), report.get("contract")
    if not isinstance(wire, dict) or not isinstance(contract, dict):
        return "its --version lacks wire or contract"
    lowest, highest = wire.get("min"), wire.get("max")
    if not isinstance(lowest, int) or not isinstance(highest, int):
        return "its --version gives no range of wire versions"
    if highest < WIRE_VERSION_MIN or lowest > WIRE_VERSION:
        return f"speaks wire versions {lowest} to {highest}, and here {WIRE_VERSION_MIN} to {WIRE_VERSION} are spoken"
    if contract.get("graph_semantics") != GRAPH_SEMANTICS_VERSION:
        return f"builds graphs of version {contract.get('graph_semantics')}, not {GRAPH_SEMANTICS_VERSION}"
    return ""


def _exact_class(report: dict[str, object]) -> str:
    fields = report.get("exact_class")
    if not isinstance(fields, dict):
        return "not given"
    return ", ".join(
        f"{name} {str(value)[: DIGEST_SHOWN if name == 'patched_tree' else FIELD_SHOWN]}"
        for name, value in fields.items()
    )


def judge_devices(run: ProgramRun) -> Finding:
    """Judge `--list-devices`: what ggml finds to compute with."""
    wrong = _judge_run("devices", run)
    if wrong is not None:
        return wrong
    report = _object(run.output)
    devices = report.get("devices") if report is not None else None
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        return failed("devices", "its --list-devices is not the JSON that was expected", _BUILD)
    if not devices:
        return failed("devices", "the worker finds nothing to compute with, not even the processor", _BUILD)
    return ok("devices", "; ".join(_device(device) for device in devices[:DEVICES_SHOWN]))


def _device(device: dict[str, object]) -> str:
    total = device.get("memory_total_bytes")
    memory = f", {total / GIB:.1f} GiB" if isinstance(total, int) and total > 0 else ""
    return f"{device.get('name')} ({device.get('description')}{memory})"

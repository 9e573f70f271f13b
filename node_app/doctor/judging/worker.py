"""Judges the worker program: whether it runs here, whether its versions match this package, and its devices."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet import __version__
from meshnet.constants import GRAPH_SEMANTICS_VERSION, WIRE_VERSION, WIRE_VERSION_MIN
from node_app.doctor.findings import GIB, Finding, failed, ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

# Characters shown of a digest, and of any other field of the worker's report.
DIGEST_SHOWN: Final = 12
FIELD_SHOWN: Final = 48
SIGILL: Final = 4
DEVICES_SHOWN: Final = 8
_BUILD: Final = "build it on this machine: make native"
# If a library is missing, the worker writes one line: this prefix, the problem, a semicolon, the advice, this suffix.
_MESSAGE_PREFIX: Final = "meshnet-worker: "
_MISSING_EXTRA: Final = " [missing_extra]"


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One run of a program.

    Attributes:
        exit_status: negative if a signal of that number ended the program; None if it did not end in time.
        output: the beginning of its standard output; its length is bounded.
        error: the last line of its standard error, or why the program could not be started.
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
    """Return a failed finding for `check` if the program hung or ended with an error, else None."""
    if run.exit_status is None:
        return failed(check, "the worker does not answer", _BUILD)
    if run.exit_status == -SIGILL:
        return failed(check, "the worker was built for another processor (illegal instruction)", _BUILD)
    if run.exit_status and run.error.endswith(_MISSING_EXTRA):
        problem, _, advice = run.error.removeprefix(_MESSAGE_PREFIX).removesuffix(_MISSING_EXTRA).partition("; ")
        return failed(check, f"the worker cannot run: {problem}", advice or "install it")
    if run.exit_status:
        return failed(check, f"the worker ended with status {run.exit_status}: {run.error}", _BUILD)
    return None


def judge_version(run: ProgramRun) -> Iterator[Finding]:
    """Judge the report of `--version`: compare its versions with this package's and show the exact class."""
    wrong = _judge_run("worker", run)
    report = _object(run.output)
    if wrong is not None or report is None:
        yield wrong or failed("worker", "its --version prints no JSON, so it may be another program", _BUILD)
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
    """Return the name and version of the library that the worker computes with (ggml or torch)."""
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
        return f"speaks wire versions {lowest} to {highest}; this package speaks {WIRE_VERSION_MIN} to {WIRE_VERSION}"
    if contract.get("graph_semantics") != GRAPH_SEMANTICS_VERSION:
        return f"computes by graph version {contract.get('graph_semantics')}, not {GRAPH_SEMANTICS_VERSION}"
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
    """Judge the report of `--list-devices`: the processors and graphics cards that ggml finds."""
    wrong = _judge_run("devices", run)
    if wrong is not None:
        return wrong
    report = _object(run.output)
    devices = report.get("devices") if report is not None else None
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        return failed("devices", "its --list-devices does not print the expected JSON", _BUILD)
    if not devices:
        return failed("devices", "the worker finds no device, not even the processor", _BUILD)
    return ok("devices", "; ".join(_device(device) for device in devices[:DEVICES_SHOWN]))


def _device(device: dict[str, object]) -> str:
    total = device.get("memory_total_bytes")
    memory = f", {total / GIB:.1f} GiB" if isinstance(total, int) and total > 0 else ""
    return f"{device.get('name')} ({device.get('description')}{memory})"

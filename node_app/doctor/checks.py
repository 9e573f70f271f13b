"""The list of checks. Each check reads facts and then judges them.

Invariant: the imports at the top need only `meshnet` and the standard library. A check imports everything else itself,
under `IMPORT_LOCK`. So if a package is missing, only the checks that need it fail.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from meshnet.errors import MeshnetError
from node_app.doctor.check_runs import Check
from node_app.doctor.findings import Finding, failed
from node_app.doctor.importing import IMPORT_LOCK
from node_app.doctor.judging import computer, site, state, worker
from node_app.doctor.reading import computer as computer_reading
from node_app.doctor.reading import programs
from node_app.doctor.reading import site as site_reading
from node_app.doctor.reading import state as state_reading
from node_app.site.reach import choose_listen_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from node_app.doctor.options import DoctorOptions

QUICK_S: Final = 5.0
PROGRAM_S: Final = 20.0
NETWORK_S: Final = 20.0
# If the connection does not open, the check asks the site's /healthz as well.
CONTROL_S: Final = 2 * NETWORK_S
PACKAGES_S: Final = 30.0
# Enough to read the headers of a large split model from a slow disk.
MODEL_S: Final = 60.0


def plan_checks(options: DoctorOptions) -> list[Check]:
    """Return the checks that the options ask for, in the order in which their findings are printed."""
    checks = [
        Check("python", QUICK_S, lambda: [computer.judge_python(sys.version_info[:3])]),
        Check("packages", PACKAGES_S, lambda: _check_packages(options.worker_path)),
        Check("worker", PROGRAM_S, lambda: _check_worker(options.worker_path)),
        Check("devices", PROGRAM_S, lambda: _check_devices(options.worker_path)),
        Check("hardware", QUICK_S, _check_hardware),
        Check("descriptors", QUICK_S, lambda: [computer.judge_descriptors(computer_reading.read_descriptor_limit())]),
        Check("clock", QUICK_S, lambda: [computer.judge_clock(time.time())]),
        Check("state", QUICK_S, lambda: [state.judge_directory(state_reading.read_directory(options.state_dir))]),
        Check("disk", QUICK_S, lambda: [_check_disk(options.state_dir)]),
        Check("node", QUICK_S, lambda: state.judge_agent(state_reading.read_agent(options.state_dir))),
    ]
    return [*checks, *_model_checks(options), *_site_checks(options), *_peer_checks(options)]


def _model_checks(options: DoctorOptions) -> Iterator[Check]:
    path = options.gguf_path
    if path is not None:
        yield Check("model", MODEL_S, lambda: _check_model(path, options))


def _site_checks(options: DoctorOptions) -> Iterator[Check]:
    url, state_dir = options.site_url, options.state_dir
    if url is not None:
        yield Check("site", NETWORK_S, lambda: site.judge_health(site_reading.read_health(url)))
        yield Check("control", CONTROL_S, lambda: _check_control(url))
        yield Check("enrolment", QUICK_S, lambda: [state.judge_enrolment(state_reading.read_enrolment(state_dir, url))])


def _peer_checks(options: DoctorOptions) -> Iterator[Check]:
    url = options.site_url
    if url is not None:  # without a site nobody dials a node
        yield Check("peers", NETWORK_S, lambda: [_check_peers(url, options)])


def _check_packages(asked: Path | None) -> Iterable[Finding]:
    with IMPORT_LOCK:
        from meshnet.llama_library import name_library  # noqa: PLC0415 - see the module's invariant
        from node_app.worker.process import find_worker_program  # noqa: PLC0415

    environment = dict(os.environ)
    with suppress(MeshnetError):  # the check "worker" reports it
        name_library(environment, [find_worker_program(asked).parent])
    names = (*computer.NODE_MODULES, *computer.OPTIONAL_MODULES)
    return computer.judge_modules(programs.read_import_problems(names, environment))


def _check_worker(asked: Path | None) -> Iterable[Finding]:
    with IMPORT_LOCK:
        from node_app.worker.process import find_worker_program  # noqa: PLC0415 - see the module's invariant

    try:
        program = find_worker_program(asked)
    except MeshnetError as error:
        return [failed("worker", error.message, "name the worker program with --worker")]
    return worker.judge_version(programs.run_worker(program, "--version"))


def _check_devices(asked: Path | None) -> Iterator[Finding]:
    with IMPORT_LOCK:
        from node_app.worker.process import find_worker_program  # noqa: PLC0415 - see the module's invariant

    try:
        program = find_worker_program(asked)
    except MeshnetError:
        return  # the check "worker" reports it
    yield worker.judge_devices(programs.run_worker(program, "--list-devices"))


def _check_hardware() -> Iterator[Finding]:
    with IMPORT_LOCK:
        from node_app.doctor.judging.model import judge_hardware  # noqa: PLC0415 - see the module's invariant
        from node_app.hardware.detect import detect_hardware  # noqa: PLC0415 - as above

        hardware = detect_hardware()  # imports what this system has

    yield judge_hardware(hardware.figures())


def _check_disk(state_dir: Path) -> Finding:
    folder = computer_reading.nearest_existing(state_dir)
    return computer.judge_disk(str(folder), computer_reading.read_free_bytes(folder))


def _check_model(path: Path, options: DoctorOptions) -> Iterator[Finding]:
    with IMPORT_LOCK:
        from node_app.artifacts.model_file import open_model  # noqa: PLC0415 - see the module's invariant
        from node_app.doctor.judging.model import judge_memory, judge_model, judge_refusal  # noqa: PLC0415 - as above
        from node_app.hardware.detect import detect_hardware  # noqa: PLC0415 - as above
        from node_app.worker.limits import AskedLimits  # noqa: PLC0415 - as above

        hardware = detect_hardware()  # imports what this system has

    try:
        model = open_model(path, options.layers)
    except MeshnetError as error:
        yield judge_refusal(error, is_file=path.is_file())
        return
    yield judge_model(model)
    asked = AskedLimits(None, options.context_length, options.max_sessions)
    yield judge_memory(model, asked, hardware.figures())


def _check_control(site_url: str) -> Iterator[Finding]:
    facts = site_reading.read_control(site_url)
    if facts.problem and site_reading.read_health(site_url).problem:
        return  # the check "site" reports it
    yield site.judge_control(facts)


def _check_peers(site_url: str, options: DoctorOptions) -> Finding:
    address = choose_listen_address(site_url, options.carrier, options.link_listen)
    problem = computer_reading.try_listening(address) if address else ""
    is_node_running = state_reading.read_agent(options.state_dir).status is not None
    is_asked = options.link_listen is not None
    return computer.judge_listening(computer.ListenFacts(address, problem, is_asked, is_node_running))

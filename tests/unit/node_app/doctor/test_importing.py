"""Checks import one at a time, so that circles of modules load in threads as they do in one."""

from __future__ import annotations

import ast
import importlib
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from node_app.doctor.check_runs import Check, run_checks
from node_app.doctor.findings import Verdict, ok
from node_app.doctor.importing import IMPORT_LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from node_app.doctor.findings import Finding

DOCTOR = Path(__file__).resolve().parents[4] / "node_app" / "doctor"
RING = ("ring_a", "ring_b")
# Without the lock both threads come here; with it the first one waits in vain.
MEETING = """
import threading
BARRIER = threading.Barrier(2, timeout=0.5)
def meet():
    try:
        BARRIER.wait()
    except threading.BrokenBarrierError:
        pass
"""


@pytest.fixture
def _ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two packages that import a module of each other; whichever is imported first, both load."""
    for name, other in (RING, RING[::-1]):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"import ring_meeting\nring_meeting.meet()\nimport {other}.part\n")
        (tmp_path / name / "part.py").write_text(f"NAME = '{name}'\n")
    (tmp_path / "ring_meeting.py").write_text(MEETING)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("ring_meeting")
    yield
    for name in [name for name in sys.modules if name.startswith("ring_")]:
        del sys.modules[name]


def an_import(name: str, deadline_s: float = 10.0) -> Check:
    def look() -> list[Finding]:
        with IMPORT_LOCK:
            module = importlib.import_module(name)
        return [ok(name, module.NAME)]

    return Check(name, deadline_s, look)


@pytest.mark.usefixtures("_ring")
def test_modules_of_a_circle_are_imported_by_several_checks() -> None:
    findings = list(run_checks([an_import(f"{name}.part") for name in RING]))
    assert [(finding.verdict, finding.summary) for finding in findings] == [(Verdict.OK, name) for name in RING]


def test_an_import_that_hangs_costs_the_checks_that_import_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hanging_module.py").write_text("import hanging_gate\nhanging_gate.GATE.wait(30)\nNAME = 'late'\n")
    (tmp_path / "hanging_gate.py").write_text("import threading\nGATE = threading.Event()\n")
    monkeypatch.syspath_prepend(tmp_path)
    gate: threading.Event = importlib.import_module("hanging_gate").GATE
    hanging = an_import("hanging_module", 0.1)
    started_s = time.monotonic()
    findings = list(run_checks([hanging, an_import("json", 0.1), Check("plain", 10.0, lambda: [ok("plain", "")])]))
    took_s = time.monotonic() - started_s
    gate.set()
    with IMPORT_LOCK:  # the thread that was left behind has ended its import
        del sys.modules["hanging_module"], sys.modules["hanging_gate"]
    assert took_s < 10
    assert [(finding.check, finding.verdict) for finding in findings] == [
        ("hanging_module", Verdict.FAILED),
        ("json", Verdict.FAILED),
        ("plain", Verdict.OK),
    ]
    assert "within 0.1 s" in findings[1].summary


def test_a_module_that_is_missing_costs_its_own_check() -> None:
    missing, plain = list(
        run_checks([an_import("no_such_module_here"), Check("plain", 10.0, lambda: [ok("plain", "")])])
    )
    assert missing.summary == "needs the Python module no_such_module_here"
    assert plain.verdict is Verdict.OK
    assert IMPORT_LOCK.acquire(timeout=5)
    IMPORT_LOCK.release()


@pytest.mark.parametrize("path", sorted(DOCTOR.rglob("*.py")), ids=lambda path: str(path.relative_to(DOCTOR)))
def test_whatever_the_doctor_imports_in_a_function_it_imports_under_the_lock(path: Path) -> None:
    tree = ast.parse(path.read_text())
    locked = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and [ast.unparse(item.context_expr) for item in node.items] == ["IMPORT_LOCK"]
        for inner in ast.walk(node)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    imports = {node for one in functions for node in ast.walk(one) if isinstance(node, ast.Import | ast.ImportFrom)}
    assert [ast.unparse(node) for node in imports - locked] == []

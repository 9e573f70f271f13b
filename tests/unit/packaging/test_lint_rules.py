"""Controls for the lint set: code that breaks a rule of the house is refused by the tool that should see it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def tool(python_program, name):
    program = Path(python_program).with_name(name)
    if not program.exists():
        pytest.skip(f"no {name}: run `make bootstrap`")
    return str(program)


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def copy_sources(folder):
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in ("shared", "tracker_site", "node_app"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def checkout(tmp_path):
    return copy_sources(tmp_path)


def test_ruff_refuses_the_second_name_of_our_library(checkout, python_program):
    (checkout / "node_app/wrong.py").write_text('"""Wrong."""\n\nimport shared.meshnet.errors\n')
    status, output = run([tool(python_program, "ruff"), "check", "--no-cache", "node_app"], checkout)
    assert status != 0
    assert "TID251" in output


MESHNET = "meshnet imports nothing of ours and no framework"
SITE_AND_NODE = "the site and the node do not know each other"
SITE_LAYERS = "the site's layers"
PLANNING = "planning a route does not know how one is run"
SITE_PURE = "the site's pure rules do no input or output"
NODE_ROOMS = "the node's rooms"
CIRCLES = "no imports of the node run in a circle"
TRAY = "the tray knows the agent by its endpoint alone"
QT = "Qt is the tray's alone"
ABOVE_THE_TRAY = "nobody imports the tray"

# Each row: a module to add, its import, the contract that it breaks, and what import-linter says of it there.
WRONG_MODULES = [
    ("shared/meshnet/wrong_site.py", "import tracker_site", MESHNET, "meshnet.wrong_site -> tracker_site"),
    ("shared/meshnet/wrong_loop.py", "import asyncio", MESHNET, "meshnet.wrong_loop -> asyncio"),
    ("shared/meshnet/wrong_web.py", "import django", MESHNET, "meshnet.wrong_web -> django"),
    ("node_app/worker/wrong_site.py", "import tracker_site", SITE_AND_NODE, "worker.wrong_site -> tracker_site"),
    ("tracker_site/billing/wrong.py", "import node_app", SITE_AND_NODE, "billing.wrong -> node_app"),
    ("tracker_site/nodes/wrong.py", "import tracker_site.gateway", SITE_LAYERS, "nodes.wrong -> tracker_site.gateway"),
    ("tracker_site/wrong.py", "", SITE_LAYERS, "- tracker_site.wrong\n"),
    (
        "tracker_site/routes/planning/wrong.py",
        "import tracker_site.routes.session.terms",
        PLANNING,
        "planning.wrong -> tracker_site.routes.session.terms",
    ),
    ("tracker_site/routes/session/wrong.py", "import asyncio", SITE_PURE, "session.wrong -> asyncio"),
    ("node_app/worker/wrong.py", "import node_app.agent.agent", NODE_ROOMS, "worker.wrong -> node_app.agent.agent"),
    ("node_app/system/wrong.py", "import node_app.settings", NODE_ROOMS, "system.wrong -> node_app.settings"),
    ("node_app/wrong.py", "", NODE_ROOMS, "- node_app.wrong\n"),
    ("node_app/agent/wrong_a.py", "import node_app.agent.wrong_b", CIRCLES, "No cycles are allowed in node_app.agent."),
    ("node_app/agent/wrong_b.py", "import node_app.agent.wrong_a", CIRCLES, "No cycles are allowed in node_app.agent."),
    ("node_app/worker/wrong_qt.py", "import PySide6.QtCore", QT, "worker.wrong_qt -> PySide6"),
    ("node_app/agent/wrong_tray.py", "import node_app.ui.view", ABOVE_THE_TRAY, "wrong_tray -> node_app.ui.view"),
    ("node_app/ui/wrong.py", "import node_app.agent.agent", TRAY, "ui.wrong -> node_app.agent.agent"),
    ("node_app/ui/wrong_grpc.py", "import grpc", TRAY, "ui.wrong_grpc -> grpc"),
    ("node_app/ui/wrong_loop.py", "import node_app.system.blocking", TRAY, "ui.wrong_loop -> node_app.system.blocking"),
]


@pytest.fixture(scope="module")
def broken_contracts(tmp_path_factory, python_program):
    """What import-linter says below each broken contract, with every wrong module added at once; it is slow."""
    folder = copy_sources(tmp_path_factory.mktemp("checkout"))
    search = {"PYTHONPATH": f"{folder}:{folder / 'shared'}", "PATH": "/usr/bin:/bin"}

    def lint():
        command = [tool(python_program, "lint-imports"), "--no-cache"]
        return subprocess.run(command, cwd=folder, env=search, capture_output=True, text=True, timeout=60, check=False)

    assert lint().returncode == 0
    for path, line, _, _ in WRONG_MODULES:
        (folder / path).write_text(f'"""Wrong."""\n\n{line}\n')
    broken = lint()
    assert broken.returncode == 1
    # Each contract's name is underlined and stands before what breaks it.
    parts = re.split(r"^(.+)\n-+\n", broken.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(
    ("contract", "said"), [row[2:] for row in WRONG_MODULES], ids=[row[0] for row in WRONG_MODULES]
)
def test_import_linter_refuses_an_upward_import_and_a_module_without_a_place(contract, said, broken_contracts):
    assert said in broken_contracts[contract]


def test_mypy_refuses_an_unannotated_function(checkout, python_program):
    (checkout / "node_app/wrong.py").write_text("def wrong(value):\n    return value\n")
    status, output = run(
        [tool(python_program, "mypy"), "--cache-dir", str(checkout / "cache"), "node_app/wrong.py"], checkout
    )
    assert status == 1
    assert "no-untyped-def" in output


def test_clang_format_refuses_another_style(tmp_path, python_program):
    shutil.copy(ROOT / ".clang-format", tmp_path)
    (tmp_path / "wrong.cpp").write_text("int  main( ) {return 0 ;}\n")
    status, output = run([tool(python_program, "clang-format"), "--dry-run", "-Werror", "wrong.cpp"], tmp_path)
    assert status != 0
    assert "clang-format-violations" in output

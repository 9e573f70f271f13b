"""Controls for the lint set: code that breaks a rule of the house is refused by the tool that should see it."""

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


@pytest.fixture
def checkout(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("shared", "tracker_site", "node_app"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_ruff_refuses_the_second_name_of_our_library(checkout, python_program):
    (checkout / "node_app/wrong.py").write_text('"""Wrong."""\n\nimport shared.meshnet.errors\n')
    status, output = run([tool(python_program, "ruff"), "check", "--no-cache", "node_app"], checkout)
    assert status != 0
    assert "TID251" in output


@pytest.mark.parametrize(
    ("path", "line", "contract"),
    [
        ("shared/meshnet/wrong.py", "import tracker_site", "meshnet imports nothing of ours and no framework"),
        ("shared/meshnet/wrong.py", "import asyncio", "meshnet imports nothing of ours and no framework"),
        ("shared/meshnet/wrong.py", "import django", "meshnet imports nothing of ours and no framework"),
        ("node_app/worker/wrong.py", "import tracker_site", "the site and the node do not know each other"),
        ("tracker_site/billing/wrong.py", "import node_app", "the site and the node do not know each other"),
        ("tracker_site/nodes/wrong.py", "import tracker_site.gateway.gateway", "the site's layers"),
        ("tracker_site/wrong.py", "", "the site's layers"),
        (
            "tracker_site/routes/planning/wrong.py",
            "import tracker_site.routes.session.terms",
            "planning a route does not know how one is run",
        ),
        ("tracker_site/routes/session/wrong.py", "import asyncio", "the site's pure rules do no input or output"),
        ("node_app/worker/wrong.py", "import node_app.agent", "the node's layers"),
        ("node_app/wrong.py", "", "the node's layers"),
        ("node_app/worker/wrong.py", "import PySide6.QtCore", "Qt is the tray's alone"),
        ("node_app/worker/wrong.py", "import node_app.ui.view", "nobody imports the tray"),
        ("node_app/ui/wrong.py", "import node_app.agent", "the tray knows the agent by its endpoint alone"),
        ("node_app/ui/view_wrong.py", "import grpc", "the tray knows the agent by its endpoint alone"),
    ],
)
def test_import_linter_refuses_an_upward_import_and_a_module_without_a_place(
    path, line, contract, checkout, python_program
):
    command = [tool(python_program, "lint-imports"), "--no-cache"]
    search = {"PYTHONPATH": f"{checkout}:{checkout / 'shared'}", "PATH": "/usr/bin:/bin"}

    def lint():
        return subprocess.run(
            command, cwd=checkout, env=search, capture_output=True, text=True, timeout=60, check=False
        )

    assert lint().returncode == 0
    (checkout / path).write_text(f'"""Wrong."""\n\n{line}\n')
    broken = lint()
    assert broken.returncode == 1
    assert f"{contract} BROKEN" in broken.stdout


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

"""The import contracts name what they are about, new modules included."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Beside itself: the address file, where it is, that it is private, the status, and how to install.
OF_THE_TRAY = {"ui", "agent_status", "local_address", "state_directory", "state_files", "installing"}


def test_the_tray_may_import_nothing_else_of_the_node() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (tray,) = [one for one in contracts if one["name"] == "the tray knows the agent by its endpoint alone"]
    forbidden = {name.removeprefix("node_app.") for name in tray["forbidden_modules"] if name.startswith("node_app.")}
    folder = ROOT / "node_app"
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert len(modules) > 30
    assert forbidden == modules - OF_THE_TRAY - {"__init__"}

"""The import contracts name what they are about, new rooms included."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Beside itself: the status with the address where it is read, and what the operating system holds.
OF_THE_TRAY = {"ui", "status", "system"}


def test_the_tray_may_import_no_other_room_of_the_node() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (tray,) = [one for one in contracts if one["name"] == "the tray knows the agent by its endpoint alone"]
    forbidden = {name.removeprefix("node_app.") for name in tray["forbidden_modules"] if name.startswith("node_app.")}
    folder = ROOT / "node_app"
    rooms = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert rooms > OF_THE_TRAY | {"agent", "main", "settings"}
    assert forbidden == rooms - OF_THE_TRAY - {"__init__"}

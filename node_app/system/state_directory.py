"""Chooses the node's state directory: from the command line, else the environment, else the system's usual place.

Invariant: the agent, the tray and the doctor all use this rule, so without options they agree on the directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_DIR_VARIABLE: Final = "MESHNET_STATE_DIR"


def choose_state_dir(asked: str | None, environment: Mapping[str, str]) -> Path:
    """Return the path of the state directory, which this function does not create.

    Args:
        asked: value of `--state-dir`; None or empty if it was not given.
        environment: the variables of this process.
    """
    chosen = asked or environment.get(STATE_DIR_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs  # noqa: PLC0415 - if it is not installed, the doctor must still start and say so

    return Path(platformdirs.user_state_dir("meshnet", appauthor=False)) / "node"

"""Which folder is this node's: the one asked for, else the environment's, else the usual one of this system.

Invariant: the agent, the tray and the doctor choose by the same rule, so that they meet without being told.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_DIR_VARIABLE: Final = "MESHNET_STATE_DIR"


def choose_state_dir(asked: str | None, environment: Mapping[str, str]) -> Path:
    """Return the state directory; nothing is created.

    Args:
        asked: value of `--state-dir`; None or empty where it was not given.
        environment: of the process.
    """
    chosen = asked or environment.get(STATE_DIR_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs  # noqa: PLC0415 - the doctor must be able to say that it is not there

    return Path(platformdirs.user_state_dir("meshnet", appauthor=False)) / "node"

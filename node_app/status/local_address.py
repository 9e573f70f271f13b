"""Keeps the address and the token of a running agent's status endpoint in `local_api.json` of the state directory.

Invariants: the file is written whole and private, and removed when the agent ends normally; if the file is left but its
process is gone, the agent crashed. The fields are checked before they are used, since the token is sent to the address.
The token never appears in a `repr`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from meshnet.constants import PORT_MAX
from node_app.system.state_files import StateError, read_bounded, write_private

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS_FILE: Final = "local_api.json"
FILE_LIMIT_BYTES: Final = 4096
PID_MAX: Final = 2**31 - 1

# Loopback as a number, since a name could lead to another machine.
_URL: Final = re.compile(r"http://127\.0\.0\.1:(\d{1,5})")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{16,256}")


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """The address of an agent's status endpoint, and the token that it asks for.

    Attributes:
        url: `http://127.0.0.1:PORT`.
        token: bearer token for the Authorization header.
        pid: process id of the agent.
    """

    url: str
    token: str = field(repr=False)
    pid: int


def write_address(state_dir: Path, address: AgentAddress) -> None:
    """Write the address file, so that other processes of this user find the agent."""
    fields = {"url": address.url, "token": address.token, "pid": address.pid}
    write_private(state_dir / ADDRESS_FILE, json.dumps(fields).encode())


def remove_address(state_dir: Path) -> None:
    """Remove the address file when the agent ends. Idempotent."""
    (state_dir / ADDRESS_FILE).unlink(missing_ok=True)


def read_address(state_dir: Path) -> AgentAddress | None:
    """Return the address of the running agent; None if there is no address file, which means that no agent runs.

    Raises:
        StateError: the file cannot be read, or was not written by an agent.
    """
    data = read_bounded(state_dir / ADDRESS_FILE, FILE_LIMIT_BYTES)
    if data is None:
        return None
    try:
        return _parse(data)
    except ValueError as error:
        message = f"{state_dir / ADDRESS_FILE} was not written by a node; start the node again, which replaces it"
        raise StateError("state_damaged", "State damaged", message) from error


def _parse(data: bytes) -> AgentAddress:
    """Return the address from the file's bytes; raises ValueError if the bytes are no valid address."""
    value = json.loads(data)
    fields = value if isinstance(value, dict) else {}
    url, token, pid = fields.get("url"), fields.get("token"), fields.get("pid")
    match = _URL.fullmatch(url) if isinstance(url, str) else None
    if match is None or not 0 < int(match[1]) <= PORT_MAX:
        raise ValueError("no loopback address")
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise ValueError("no token")
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid <= PID_MAX:
        raise ValueError("no process id")
    return AgentAddress(match[0], token, pid)

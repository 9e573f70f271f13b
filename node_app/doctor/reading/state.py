"""Reads the state directory, and asks the node that runs with it for its status. Nothing is changed or locked."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from meshnet.errors import MeshnetError
from node_app.doctor.importing import IMPORT_LOCK
from node_app.doctor.judging.state import AgentFacts, DirectoryFacts, EnrolmentFacts
from node_app.doctor.reading.computer import nearest_existing
from node_app.status.agent_status import StatusError, parse_status
from node_app.status.local_address import read_address
from node_app.system.unreachable import why_unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from node_app.status.local_address import AgentAddress

STATUS_TIMEOUT_S: Final = 3.0
STATUS_LIMIT_BYTES: Final = 64 * 1024


def read_directory(state_dir: Path) -> DirectoryFacts:
    """Return facts about the state directory; if it does not exist, about the nearest folder above it."""
    folder = nearest_existing(state_dir)
    status = folder.stat()
    return DirectoryFacts(
        path=str(folder),
        exists=folder == state_dir,
        is_directory=stat.S_ISDIR(status.st_mode),
        is_own=not hasattr(os, "getuid") or status.st_uid == os.getuid(),
        is_writable=os.access(folder, os.W_OK | os.X_OK),
        mode=stat.S_IMODE(status.st_mode),
    )


def read_agent(state_dir: Path) -> AgentFacts:
    """Ask the node that runs with the state directory, if there is one, for its status."""
    try:
        address = read_address(state_dir)
    except MeshnetError as error:
        return AgentFacts(problem=error.message)
    return AgentFacts() if address is None else _ask(address)


def _ask(address: AgentAddress) -> AgentFacts:
    with IMPORT_LOCK:
        import requests  # noqa: PLC0415 - may be missing, which is a finding

    session = requests.Session()
    session.trust_env = False  # no proxy between this machine and itself
    headers = {"Authorization": f"Bearer {address.token}"}
    try:
        with session.get(
            f"{address.url}/status", headers=headers, timeout=STATUS_TIMEOUT_S, allow_redirects=False, stream=True
        ) as answer:
            data, code = next(answer.iter_content(STATUS_LIMIT_BYTES), b""), answer.status_code
        return AgentFacts(address.pid, parse_status(data))
    except requests.ConnectionError:
        return AgentFacts(address.pid, problem=f"process {address.pid} is gone and left its address file here")
    except (requests.RequestException, OSError) as error:
        return AgentFacts(address.pid, problem=f"process {address.pid} cannot be asked: {why_unreachable(error)}")
    except StatusError:
        return AgentFacts(address.pid, problem=f"process {address.pid} answers with status {code}, but not as a node")


def read_enrolment(state_dir: Path, site_url: str) -> EnrolmentFacts:
    """Return this installation's enrolment at a site. No key is made and nothing is written."""
    with IMPORT_LOCK:
        from node_app.site.identity import KEY_FILE, IdentityStore  # noqa: PLC0415 - its packages may be missing

    has_key = (state_dir / KEY_FILE).exists()
    store = IdentityStore(state_dir)
    try:
        if has_key:
            store.signing_key()
        return EnrolmentFacts(has_key, store.node_id(site_url))
    except MeshnetError as error:
        return EnrolmentFacts(has_key, "", error.message)

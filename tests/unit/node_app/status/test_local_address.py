"""The address file: what an agent writes is read back; anything else is refused before it is dialled."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from node_app.status.local_address import ADDRESS_FILE, AgentAddress, read_address, remove_address, write_address
from node_app.system.state_files import StateError

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "t" * 43
GOOD = {"url": "http://127.0.0.1:4711", "token": TOKEN, "pid": 12}


def test_what_is_written_is_read_and_private(tmp_path: Path) -> None:
    address = AgentAddress("http://127.0.0.1:4711", TOKEN, 12)
    write_address(tmp_path, address)
    assert stat.S_IMODE((tmp_path / ADDRESS_FILE).stat().st_mode) == 0o600
    assert read_address(tmp_path) == address
    remove_address(tmp_path)
    remove_address(tmp_path)
    assert read_address(tmp_path) is None


def test_the_token_is_in_no_representation() -> None:
    assert TOKEN not in repr(AgentAddress("http://127.0.0.1:1", TOKEN, 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://192.0.2.1:80"},
        {"url": "http://localhost:4711"},
        {"url": "https://127.0.0.1:4711"},
        {"url": "http://127.0.0.1:4711/elsewhere"},
        {"url": "http://127.0.0.1:0"},
        {"url": "http://127.0.0.1:65536"},
        {"url": "http://user@127.0.0.1:4711"},
        {"url": "http://127.0.0.1:4711\r\nX: y"},
        {"url": None},
        {"token": ""},
        {"token": "short"},
        {"token": "with a space and more than enough letters"},
        {"token": "line\r\nX-Header: yes-and-long-enough"},
        {"token": 7},
        {"pid": 0},
        {"pid": -1},
        {"pid": True},
        {"pid": 2**31},
        {"pid": "12"},
    ],
)
def test_a_file_that_no_agent_wrote_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / ADDRESS_FILE).write_text(json.dumps(GOOD | wrong))
    with pytest.raises(StateError, match="start the node again"):
        read_address(tmp_path)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b"[" * 5000, b" " * 5000])
def test_bytes_that_are_no_address_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / ADDRESS_FILE).write_bytes(data)
    with pytest.raises(StateError):
        read_address(tmp_path)


def test_the_good_file_of_these_tests_is_good(tmp_path: Path) -> None:
    (tmp_path / ADDRESS_FILE).write_text(json.dumps(GOOD))
    assert read_address(tmp_path) == AgentAddress("http://127.0.0.1:4711", TOKEN, 12)

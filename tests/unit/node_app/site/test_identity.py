from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from node_app.site.identity import KEY_FILE, SITES_FILE, IdentityStore
from node_app.system.state_files import StateError

if TYPE_CHECKING:
    from pathlib import Path


def test_one_installation_is_one_identity(tmp_path: Path) -> None:
    first = IdentityStore(tmp_path).signing_key()
    assert IdentityStore(tmp_path).signing_key().public_key == first.public_key
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_key_is_told_and_never_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEY_FILE).write_bytes(content)
    with pytest.raises(StateError, match="state_damaged"):
        IdentityStore(tmp_path).signing_key()
    assert (tmp_path / KEY_FILE).read_bytes() == content


def test_each_site_has_its_own_name_for_the_node(tmp_path: Path) -> None:
    store = IdentityStore(tmp_path)
    assert store.node_id("http://a") == ""
    store.remember("http://a", "node-a")
    store.remember("http://b", "node-b")
    assert (IdentityStore(tmp_path).node_id("http://a"), store.node_id("http://b")) == ("node-a", "node-b")
    store.remember("http://a", "")
    assert (store.node_id("http://a"), store.node_id("http://b")) == ("", "node-b")


@pytest.mark.parametrize("content", [b"{", b"[]", b"3"])
def test_a_damaged_list_of_sites_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / SITES_FILE).write_bytes(content)
    with pytest.raises(StateError, match="state_damaged"):
        IdentityStore(tmp_path).node_id("http://a")

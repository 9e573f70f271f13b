from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from meshnet.artifact.gguf import file_digest
from meshnet.errors import ArtifactError
from node_app.artifacts.digest_cache import CACHE_FILE, DigestCache

if TYPE_CHECKING:
    from pathlib import Path


def digest_of(*contents: bytes) -> bytes:
    return hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).digest()


def test_the_digest_is_over_the_files_digests_in_order(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    cache = DigestCache(tmp_path)
    assert cache.artifact_digest([tmp_path / "a", tmp_path / "b"]) == digest_of(b"1", b"2")
    assert cache.artifact_digest([tmp_path / "b", tmp_path / "a"]) == digest_of(b"2", b"1")


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    known = DigestCache(tmp_path).artifact_digest([path])
    path.chmod(0)  # as root it stays readable, so the cache file is the witness
    cached = (tmp_path / CACHE_FILE).read_text()
    forged = cached.replace(hashlib.sha256(b"1").hexdigest(), "00" * 32)
    (tmp_path / CACHE_FILE).write_text(forged)
    again = DigestCache(tmp_path).artifact_digest([path])
    assert again != known
    assert again == hashlib.sha256(bytes(32)).digest()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    cache = DigestCache(tmp_path)
    cache.artifact_digest([path])
    path.write_bytes(b"22")
    assert cache.artifact_digest([path]) == digest_of(b"22")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a": 5}', b'{"a": "zz"}', b'{"a": "00"}'])
def test_a_damaged_cache_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CACHE_FILE).write_bytes(content)
    (tmp_path / "a").write_bytes(b"1")
    assert DigestCache(tmp_path).artifact_digest([tmp_path / "a"]) == digest_of(b"1")


def test_a_file_that_changes_while_it_is_read_is_told_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")

    def read_and_write(read: Path) -> bytes:
        digest = file_digest(read)
        path.write_bytes(b"22")
        return digest

    with monkeypatch.context() as patched:
        patched.setattr("node_app.artifacts.digest_cache.file_digest", read_and_write)
        with pytest.raises(ArtifactError, match="changed"):
            DigestCache(tmp_path).artifact_digest([path])
    assert not (tmp_path / CACHE_FILE).exists()
    assert DigestCache(tmp_path).artifact_digest([path]) == digest_of(b"22")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="unreadable"):
        DigestCache(tmp_path).artifact_digest([tmp_path / "absent"])

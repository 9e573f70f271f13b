import tarfile

import pytest

from source_tree import SourceError, tree_digest, tree_fingerprint, unpack_subtree

from .archives import write_archive


def test_unpacks_one_subtree_without_the_pruned_parts(tmp_path):
    archive = write_archive(tmp_path / "a.tar.gz", {"p/x/keep/a.c": b"a", "p/x/docs/b": b"b", "p/y/c": b"c"})
    assert unpack_subtree(archive, "p/x", ["docs"], tmp_path / "out") == 1
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["a.c"]


@pytest.mark.parametrize("name", ["p/x/../../../escaped", "/absolute", "p/x/a/../../../../../escaped"])
def test_refuses_a_path_that_escapes(name, tmp_path):
    archive = write_archive(tmp_path / "a.tar.gz", {"p/x/a": b"a", name: b"evil"})
    with pytest.raises(SourceError, match="escapes"):
        unpack_subtree(archive, "p/x", [], tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_refuses_links_and_special_files(kind, tmp_path):
    archive = write_archive(tmp_path / "a.tar.gz", {"p/x/a": b"a", "p/x/b": (kind, "/etc/passwd")})
    with pytest.raises(SourceError, match="not a regular file"):
        unpack_subtree(archive, "p/x", [], tmp_path / "out")


def test_refuses_an_archive_without_the_subtree(tmp_path):
    archive = write_archive(tmp_path / "a.tar.gz", {"p/y/a": b"a"})
    with pytest.raises(SourceError, match="nothing under"):
        unpack_subtree(archive, "p/x", [], tmp_path / "out")


def test_the_digest_sees_names_bytes_and_the_executable_bit_and_nothing_else(tmp_path):
    (tmp_path / "a.c").write_bytes(b"one")
    first, files = tree_digest(tmp_path)
    assert files == 1

    (tmp_path / "a.c").touch()
    assert tree_digest(tmp_path)[0] == first

    (tmp_path / "a.c").chmod(0o755)
    executable = tree_digest(tmp_path)[0]
    (tmp_path / "a.c").chmod(0o644)
    (tmp_path / "a.c").write_bytes(b"two")
    changed = tree_digest(tmp_path)[0]
    (tmp_path / "a.c").write_bytes(b"one")
    (tmp_path / "a.c").rename(tmp_path / "b.c")
    renamed = tree_digest(tmp_path)[0]
    assert len({first, executable, changed, renamed}) == 4


def test_the_fingerprint_notices_an_edit(tmp_path):
    (tmp_path / "a.c").write_bytes(b"one")
    before = tree_fingerprint(tmp_path)
    assert tree_fingerprint(tmp_path) == before
    (tmp_path / "a.c").write_bytes(b"more")
    assert tree_fingerprint(tmp_path) != before


def test_a_link_in_a_tree_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(SourceError):
        tree_digest(tmp_path)

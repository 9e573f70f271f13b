"""The fetch, patch and verify machinery on a small archive of its own, with every control that must be refused."""

import hashlib
import json
import shutil

import pytest

import llama_source
from source_tree import SourceError, tree_digest

from .archives import write_archive

SOURCE = b"int one(void) {\n    return 1;\n}\n\nint two(void) {\n    return 2;\n}\n"
PATCH = """\
--- a/code.c
+++ b/code.c
@@ -1,3 +1,3 @@
 int one(void) {
-    return 1;
+    return 11;
 }
"""


@pytest.fixture
def at(tmp_path):
    """A checkout in miniature: archive already downloaded, one patch, manifest recorded."""
    at = llama_source.places(tmp_path)
    at.patches.mkdir(parents=True)
    at.downloads.mkdir(parents=True)
    archive = write_archive(at.downloads / "a.tar.gz", {"p/x/code.c": SOURCE, "p/x/other.c": b"int three;\n"})
    manifest = {
        "package": "a",
        "version": "1",
        "archive": {
            "file_name": archive.name,
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "subtree": "p/x",
        },
        "tree": {"pruned": ["docs"], "clean_sha256": "", "patched_sha256": ""},
    }
    at.provenance.write_text(json.dumps(manifest))
    (at.patches / "0001-one.patch").write_text(PATCH)
    llama_source.record(at)
    return at


def change_manifest(at, part, field, value):
    fields = json.loads(at.provenance.read_text())
    fields[part][field] = value
    at.provenance.write_text(json.dumps(fields))


def test_fetch_unpacks_and_patches_and_is_idempotent(at):
    assert "2 files verified, 1 patches applied" in llama_source.fetch(at)
    assert "return 11;" in (at.source / "code.c").read_text()
    assert llama_source.fetch(at) == "llama.cpp source: up to date"


def test_verify_counts_patches_files_and_controls(at):
    assert llama_source.verify(at) == "patches-verify: 1 patches, 1 files changed of 2, 2 controls refused: ok"


def test_verify_means_something_without_patches(at):
    (at.patches / "0001-one.patch").unlink()
    with pytest.raises(SourceError, match="patched source: tree digest"):
        llama_source.verify(at)
    llama_source.record(at)
    assert "0 patches, 0 files changed of 2, 1 controls refused" in llama_source.verify(at)


@pytest.mark.parametrize("broken", [b"", b"garbage", b"\x1f\x8b truncated"])
def test_an_archive_with_another_digest_is_refused_before_it_is_opened(at, broken):
    (at.downloads / "a.tar.gz").write_bytes(broken)
    with pytest.raises(SourceError, match="sha256 is"):
        llama_source.fetch(at)
    assert not at.source.exists()


def test_a_clean_tree_with_another_digest_is_refused(at):
    change_manifest(at, "tree", "clean_sha256", "0" * 64)
    with pytest.raises(SourceError, match="unpacked source: tree digest"):
        llama_source.fetch(at)
    assert not at.source.exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return 1;", "return 7;"),  # context that is not there
        ("@@ -1,3 +1,3 @@", "@@ -2,3 +2,3 @@"),  # applies only with an offset
        ("return 11;", "return 12;"),  # applies, and gives another tree
        ("code.c", "missing.c"),
        (PATCH, "nothing of a patch\n"),
    ],
)
def test_a_corrupted_patch_is_refused(at, old, new):
    patch = at.patches / "0001-one.patch"
    assert old in PATCH
    patch.write_text(PATCH.replace(old, new))
    for command in (llama_source.fetch, llama_source.verify):
        with pytest.raises(SourceError):
            command(at)
    assert not at.source.exists()


@pytest.mark.parametrize("name", ["0003-gap.patch", "1-short.patch", "0002-Upper.patch", "0001-repeat.patch"])
def test_patch_names_are_numbered_without_gaps(at, name):
    (at.patches / name).write_text(PATCH)
    with pytest.raises(SourceError):
        llama_source.fetch(at)


def test_an_edited_tree_is_never_overwritten(at, monkeypatch):
    llama_source.fetch(at)
    (at.source / "code.c").write_text("my work\n")
    with pytest.raises(SourceError, match="edited by hand"):
        llama_source.fetch(at)
    monkeypatch.setenv(llama_source.EDITED_VARIABLE, "1")
    llama_source.fetch(at)
    assert (at.source / "code.c").read_text() == "my work\n"


def test_files_that_a_new_patch_does_not_change_keep_their_times(at):
    llama_source.fetch(at)
    before = {path.name: path.stat().st_mtime_ns for path in at.source.iterdir()}
    (at.patches / "0001-one.patch").write_text(PATCH.replace("11", "12"))
    llama_source.record(at)
    llama_source.fetch(at)
    after = {path.name: path.stat().st_mtime_ns for path in at.source.iterdir()}
    assert after["other.c"] == before["other.c"]
    assert after["code.c"] != before["code.c"]


def test_a_lost_stamp_gives_the_same_tree_again(at):
    llama_source.fetch(at)
    digest = tree_digest(at.source)
    at.stamp.write_text('{"inputs":')
    llama_source.fetch(at)
    assert tree_digest(at.source) == digest


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"archive": 3}'])
def test_a_broken_manifest_is_one_clear_error(at, content):
    shutil.copy(at.provenance, at.provenance.with_suffix(".saved"))
    at.provenance.write_text(content)
    with pytest.raises(SourceError, match="not a provenance manifest"):
        llama_source.fetch(at)

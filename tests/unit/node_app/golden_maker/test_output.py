"""Where `meshnet probe` writes, and where it refuses to before it computes anything."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from meshnet.errors import ArtifactError
from node_app.golden_maker.main import main
from node_app.golden_maker.output import require_writable, write_output
from tests.simulators.fake_model import write_fake_model


def a_model(folder: Path) -> Path:
    return write_fake_model(folder / "model.gguf", n_layers=2, width=8, context_length=64)


def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


PLACES = {
    "the root": lambda _: Path("/"),
    "no name": lambda _: Path(),
    "the folder above": lambda _: Path(".."),
    "a folder": lambda folder: folder,
    "no folder": lambda folder: folder / "absent" / "golden",
    "a file as a folder": lambda folder: folder / "model.gguf" / "golden",
    "too long a name": lambda folder: folder / ("n" * 256),
    "a device": lambda _: Path("/dev/null"),
    "a pipe": a_pipe,
    "the model": lambda folder: folder / "model.gguf",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_takes_no_file_is_refused_before_anything_runs(place: str, tmp_path: Path) -> None:
    model = a_model(tmp_path)
    content = model.read_bytes()
    output = PLACES[place](tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ArtifactError) as refused:
        main([str(model), "-o", str(output), "--worker", str(tmp_path / "no worker is looked for")])
    assert refused.value.code == "unwritable"
    assert sorted(tmp_path.iterdir()) == before
    assert model.read_bytes() == content
    assert not Path("/dev/null").is_file()


def test_a_name_as_long_as_they_may_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    require_writable(path, [a_model(tmp_path)])
    write_output(path, b"golden")
    assert path.read_bytes() == b"golden"
    with pytest.raises(ArtifactError) as refused:
        write_output(tmp_path / ("n" * 256), b"golden")
    assert refused.value.code == "unwritable"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model.gguf", "n" * 255]


@pytest.mark.parametrize("stops", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_stops_the_writing_leaves_the_old_file(
    stops: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "golden"
    write_output(path, b"old")

    def stop(_descriptor: int) -> None:
        raise stops

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises((ArtifactError, KeyboardInterrupt)):
        write_output(path, b"a new one")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.llama_library import BUILD_FOLDER, LIBRARY_FOLDER, built_folder, name_library, usual_folders

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def folder_with(tmp_path: Path, name: str, *files: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    for file in files:
        (folder / file).touch(mode=0o755)
    return folder


def test_the_first_folder_with_the_library_is_named(tmp_path: Path) -> None:
    empty, first, second = (
        folder_with(tmp_path, "empty", "meshnet-worker"),
        folder_with(tmp_path, "first", "libllama.so"),
        folder_with(tmp_path, "second", "libllama.dylib"),
    )
    environment: dict[str, str] = {}
    name_library(environment, [tmp_path / "absent", empty, first, second])
    assert environment == {LIBRARY_FOLDER: str(first)}
    name_library(environment, [second])
    assert environment == {LIBRARY_FOLDER: str(first)}


def test_where_there_is_none_nothing_is_named(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    name_library(environment, [tmp_path])
    assert environment == {}


def test_it_is_looked_for_where_the_worker_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = folder_with(tmp_path, "installed", "meshnet-worker")
    monkeypatch.setenv("PATH", str(installed))
    assert usual_folders() == [built_folder(), installed]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert usual_folders() == [built_folder()]


def test_the_checkout_s_build_is_meant(request: pytest.FixtureRequest) -> None:
    assert built_folder() == request.config.rootpath / BUILD_FOLDER

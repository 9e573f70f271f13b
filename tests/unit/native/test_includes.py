"""The folders of native/src include each other in one direction, and no two files include each other in a circle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "native" / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

# The other folders that a folder's files may include. main.cpp, alone at the root, may include all but measure.
ALLOWED: Mapping[str, frozenset[str]] = {
    "wire": frozenset(),
    "engine": frozenset({"wire"}),
    "session": frozenset({"engine", "wire"}),
    "link": frozenset({"session", "wire"}),
    "process": frozenset({"link", "session", "engine", "wire"}),
    # No other folder includes it, so that the shipped worker links nothing of it.
    "measure": frozenset({"process", "link", "session", "engine", "wire"}),
}
ROOT_FILES = {"main.cpp"}
# Generated while building, so not in native/src.
GENERATED = re.compile(r"meshnet/v1/\w+(\.grpc)?\.pb\.h|build_facts\.h")

Includes = dict[str, list[str]]


def own_includes() -> Includes:
    """Return for each file of native/src, by its path there, the paths that it includes in quotes."""
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in {".cpp", ".h"})
    return {
        path.relative_to(SOURCE).as_posix(): [
            name for name in INCLUDE.findall(path.read_text(encoding="utf-8")) if not GENERATED.fullmatch(name)
        ]
        for path in files
    }


def room_of(path: str) -> str:
    """Return the folder of a file, empty for one at the root."""
    return path.rpartition("/")[0]


def wrong_directions(includes: Includes) -> list[str]:
    """Return each include that goes against the folders' order, or to a file that does not exist."""
    wrong = []
    for path, names in includes.items():
        room = room_of(path)
        allowed = ALLOWED.keys() - {"measure"} if path in ROOT_FILES else ALLOWED[room] | {room}
        wrong += [f"{path} -> {name}" for name in names if name not in includes or room_of(name) not in allowed]
    return wrong


def circle_in(includes: Includes) -> list[str]:
    """Return the files of one circle of includes, the first again at the end; empty if there is none."""
    done: set[str] = set()

    def walk(path: str, way: list[str]) -> list[str]:
        if path in way:
            return [*way[way.index(path) :], path]
        if path in done:
            return []
        for name in includes.get(path, []):
            if circle := walk(name, [*way, path]):
                return circle
        done.add(path)
        return []

    return next((circle for path in includes if (circle := walk(path, []))), [])


def test_every_file_lies_in_a_folder_that_has_a_direction() -> None:
    at_root = {path for path in own_includes() if not room_of(path)}
    assert at_root == ROOT_FILES
    assert {room_of(path) for path in own_includes()} - {""} == ALLOWED.keys()


def test_folders_include_each_other_in_one_direction() -> None:
    includes = own_includes()
    between = sum(room_of(name) != room_of(path) for path, names in includes.items() for name in names)
    print(f"{len(includes)} files, {sum(map(len, includes.values()))} includes, {between} of them between folders")
    assert len(includes) > 0
    assert between > 0
    assert wrong_directions(includes) == []


def test_no_files_include_each_other_in_a_circle() -> None:
    includes = own_includes()
    assert sum(map(len, includes.values())) > 0
    assert circle_in(includes) == []


@pytest.mark.parametrize(
    ("path", "upward"),
    [
        ("wire/status.h", "engine/shard_engine.h"),
        ("engine/shard_engine.h", "session/session.h"),
        ("session/session.h", "link/link.h"),
        ("link/link.h", "engine/shard_engine.h"),
        ("link/link.h", "process/serve.h"),
        ("session/stage_worker.h", "measure/shard_captures.h"),
        ("engine/llama_engine.h", "measure/llama_profile.h"),
        ("process/serve.h", "measure/measure_service.h"),
        ("wire/status.h", "digest.h"),
    ],
)
def test_a_made_up_include_upward_is_found(path: str, upward: str) -> None:
    includes = own_includes()
    includes[path].append(upward)
    assert wrong_directions(includes) == [f"{path} -> {upward}"]


def test_a_made_up_circle_is_found() -> None:
    includes = own_includes()
    includes["wire/protocol_limits.h"].append("wire/tensor_codec.h")
    circle = circle_in(includes)
    assert circle[0] == circle[-1]
    assert {"wire/protocol_limits.h", "wire/tensor_codec.h"} <= set(circle)

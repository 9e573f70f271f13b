"""NOTICE and the project's metadata name every package that an installation brings, with its licence."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# A name, two spaces or more, an SPDX expression, and perhaps a remark after two spaces or more.
_LINE = re.compile(r"^  (?P<name>\S.*?) {2,}(?P<licence>\S(?: ?\S)*)", re.MULTILINE)
NOTICE = {found["name"]: found["licence"] for found in _LINE.finditer((ROOT / "NOTICE").read_text(encoding="utf-8"))}
EXTRAS = {name: needed for name, needed in PROJECT["optional-dependencies"].items() if name != "dev"}
RUNTIME = sorted({Requirement(line).name for needed in [PROJECT["dependencies"], *EXTRAS.values()] for line in needed})


@pytest.mark.parametrize("package", RUNTIME)
def test_every_runtime_dependency_has_its_line_and_the_licence_it_declares(package):
    assert package in NOTICE
    try:
        declared = importlib.metadata.metadata(package).get("License-Expression")
    except importlib.metadata.PackageNotFoundError:
        return  # an extra that is not installed here: only its line can be checked
    # Older metadata have free text instead, which no machine can compare.
    assert declared in {None, NOTICE[package]}


def test_the_demo_model_has_the_licence_of_its_manifest():
    manifest = json.loads((ROOT / "packaging/demo_model.json").read_text(encoding="utf-8"))
    assert NOTICE[manifest["name"]] == manifest["licence"]


def test_what_is_built_carries_the_licence_texts():
    metadata = ProjectMetadata(str(ROOT), PluginManager())
    assert metadata.core.license_expression == "Apache-2.0"
    assert set(metadata.core.license_files) == {"LICENSE", "NOTICE", "native/patches/LICENSE"}


def test_the_patches_have_the_licence_of_the_source_that_they_change():
    text = (ROOT / "native/patches/LICENSE").read_text(encoding="utf-8")
    assert text.startswith("MIT License\n\nCopyright (c) 2023-2026 The ggml authors\n")
    assert text == (ROOT / "build/llama.cpp/LICENSE").read_text(encoding="utf-8")

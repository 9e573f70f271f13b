"""Files and folders that the papers for newcomers name are there, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAPERS = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
]
TOP = "shared|tracker_site|node_app|native|tests|packaging|docs"
PATHS = re.compile(rf"`((?:{TOP})/[\w./-]*\w/?)`")
LINKS = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)")


def missing(paper: str, text: str) -> tuple[int, list[str]]:
    """The number of paths and links in a paper, and those that lead nowhere."""
    links = [link for link in LINKS.findall(text) if "://" not in link]
    paths = [ROOT / name for name in PATHS.findall(text)] + [(ROOT / paper).parent / link for link in links]
    return len(paths), [str(path) for path in paths if not path.exists()]


@pytest.mark.parametrize("paper", PAPERS)
def test_what_a_paper_names_is_there(paper: str) -> None:
    _, lost = missing(paper, (ROOT / paper).read_text())
    assert lost == []


def test_paths_are_found_and_a_wrong_one_is_noticed() -> None:
    found = {paper: missing(paper, (ROOT / paper).read_text())[0] for paper in PAPERS}
    assert found["CONTRIBUTING.md"] > 20
    assert sum(found.values()) > 100
    count, lost = missing("README.md", "`node_app/agent/nothing.py`, [here](docs/nothing.md), `node_app/main.py`")
    assert (count, len(lost)) == (3, 2)

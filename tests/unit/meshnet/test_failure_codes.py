from __future__ import annotations

import re
from pathlib import Path

from meshnet.failure_codes import TITLES, FailureCode

WIRE_PAGE = Path(__file__).resolve().parents[3] / "docs" / "wire.md"


def test_codes_are_those_of_the_page() -> None:
    section = WIRE_PAGE.read_text().split("## Failure codes")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = [code for row in rows for code in re.findall(r"`([a-z_]+)`", row)]
    assert len(documented) > 20
    assert sorted(documented) == sorted(FailureCode)


def test_each_has_a_title() -> None:
    assert set(TITLES) == set(FailureCode)

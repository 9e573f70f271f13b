"""The page on the wire names every code that crosses it, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meshnet.failure_codes import FailureCode, NodeCode
from meshnet.member_events import RelayCode
from meshnet.tickets import TicketCode
from tracker_site.nodes.notices import NoticeCode
from tracker_site.nodes.refusals import ControlRefusalCode

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path(__file__).resolve().parents[2]
ROUTE_ERROR = re.compile(r'(?:RouteError|RouteFailure|Overdue)\(\s*"([a-z_]+)"')


def documented_codes(heading: str) -> list[str]:
    """Codes in the first column of the table under a heading."""
    after = re.split(rf"^#+ {heading}$", (ROOT / "docs" / "wire.md").read_text(), flags=re.MULTILINE)[1]
    section = re.split(r"^#", after, flags=re.MULTILINE)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [code for row in rows for code in re.findall(r"`([a-z_]+)`", row)]


@pytest.mark.parametrize(
    ("heading", "codes"),
    [
        ("Failure codes", FailureCode),
        ("Of a node", NodeCode),
        ("Of a ticket", TicketCode),
        ("Of the relay", RelayCode),
        ("Of the control connection", ControlRefusalCode),
        ("Of a notice", NoticeCode),
    ],
)
def test_codes_are_those_of_the_page(heading: str, codes: Collection[str]) -> None:
    assert sorted(documented_codes(heading)) == sorted(codes)


def sources(*folders: str) -> list[str]:
    return [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]


def test_each_error_that_routes_and_the_gateway_raise_by_name_is_on_the_page() -> None:
    text = "\n".join(sources("tracker_site/routes", "tracker_site/gateway"))
    raised = set(ROUTE_ERROR.findall(text))
    assert len(raised) > 5
    assert raised <= {*documented_codes("Of a route"), *FailureCode}


@pytest.mark.parametrize(
    ("heading", "folders"),
    [
        ("Of a route", ("tracker_site/routes", "tracker_site/gateway", "shared/meshnet")),
        ("Of a node's own API", ("node_app/loopback",)),
    ],
)
def test_each_code_of_an_error_object_on_the_page_stands_in_the_source(heading: str, folders: tuple[str, ...]) -> None:
    text = "\n".join(sources(*folders))
    codes = documented_codes(heading)
    assert len(codes) > 5
    assert [code for code in codes if f'"{code}"' not in text] == []

"""Programs of this machine get in; pages in its browser, by whatever name they call it, do not."""

from __future__ import annotations

import pytest

from meshnet.openai.errors import RequestError
from node_app.loopback.openai.access import check_access

PORT = 8123


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123", "LOCALHOST:8123"])
@pytest.mark.parametrize(
    "origins", [[], ["http://127.0.0.1:8123"], ["http://localhost:8123"], ["HTTP://LocalHost:8123"]]
)
def test_this_endpoint_by_its_names(host: str, origins: list[str]) -> None:
    check_access([host], origins, PORT)


@pytest.mark.parametrize(
    ("hosts", "origins", "code"),
    [
        ([], [], "host_not_allowed"),
        (["127.0.0.1"], [], "host_not_allowed"),
        (["127.0.0.1:8124"], [], "host_not_allowed"),
        (["rebound.example:8123"], [], "host_not_allowed"),
        (["127.0.0.1.rebound.example:8123"], [], "host_not_allowed"),
        (["[::1]:8123"], [], "host_not_allowed"),
        (["192.168.0.7:8123"], [], "host_not_allowed"),
        (["127.0.0.1:8123", "127.0.0.1:8123"], [], "host_not_allowed"),
        (["rebound.example:8123"], ["http://rebound.example:8123"], "host_not_allowed"),
        (["127.0.0.1:8123"], ["http://evil.example"], "origin_not_allowed"),
        (["127.0.0.1:8123"], ["null"], "origin_not_allowed"),
        (["127.0.0.1:8123"], ["https://127.0.0.1:8123"], "origin_not_allowed"),
        (["127.0.0.1:8123"], ["http://127.0.0.1:3000"], "origin_not_allowed"),
        (["127.0.0.1:8123"], ["http://127.0.0.1:8123", "http://evil.example"], "origin_not_allowed"),
        (["127.0.0.1:8123"], [""], "origin_not_allowed"),
    ],
)
def test_everyone_else(hosts: list[str], origins: list[str], code: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_access(hosts, origins, PORT)
    assert (caught.value.status, caught.value.code) == (403, code)

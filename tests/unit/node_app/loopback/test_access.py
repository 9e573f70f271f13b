"""Programs of this machine get in; pages in its browser, whatever name they call it by, do not."""

from __future__ import annotations

import pytest

from node_app.loopback.access import check_access, has_token
from node_app.loopback.refusals import Reason, RequestRefusedError

PORT = 8123
TOKEN = "tok"


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123", "LOCALHOST:8123"])
@pytest.mark.parametrize(
    "origins", [[], ["http://127.0.0.1:8123"], ["http://localhost:8123"], ["HTTP://LocalHost:8123"]]
)
def test_this_endpoint_by_its_names(host: str, origins: list[str]) -> None:
    check_access([host], origins, PORT)


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["127.0.0.1"],
        ["127.0.0.1:8124"],
        ["127.0.0.1:81230"],
        ["[::1]:8123"],
        ["192.168.0.7:8123"],
        ["rebound.example:8123"],
        ["127.0.0.1.rebound.example:8123"],
        ["127.0.0.1:8123", "127.0.0.1:8123"],
    ],
)
def test_another_host(hosts: list[str]) -> None:
    for origins in ([], [f"http://{host}" for host in hosts]):
        with pytest.raises(RequestRefusedError) as caught:
            check_access(hosts, origins, PORT)
        assert (caught.value.status, caught.value.reason) == (403, Reason.OTHER_HOST)


@pytest.mark.parametrize(
    "origins",
    [
        [""],
        ["null"],
        ["127.0.0.1:8123"],
        ["http:127.0.0.1:8123"],
        ["http://"],
        ["http://127.0.0.1"],
        ["http://127.0.0.1:3000"],
        ["http://127.0.0.1:81230"],
        ["http://127.0.0.1:8123/"],
        ["http://[::1]:8123"],
        ["https://127.0.0.1:8123"],
        ["http://evil.example"],
        ["http://evil.example:8123"],
        ["http://127.0.0.1.evil:8123"],
        ["http://127.0.0.1:8123", "http://evil.example"],
    ],
)
def test_another_origin(origins: list[str]) -> None:
    with pytest.raises(RequestRefusedError) as caught:
        check_access(["127.0.0.1:8123"], origins, PORT)
    assert (caught.value.status, caught.value.reason) == (403, Reason.OTHER_ORIGIN)


@pytest.mark.parametrize(
    ("values", "is_given"),
    [
        (["Bearer tok"], True),
        ([], False),
        ([""], False),
        (["tok"], False),
        (["Bearer no"], False),
        (["Bearer tok "], False),
        (["Bearer tok\xe9"], False),
        (["Basic tok"], False),
        (["Bearer tok", "Bearer tok"], False),
        (["Bearer no", "Bearer tok"], False),
    ],
)
def test_the_token_is_given_once(values: list[str], *, is_given: bool) -> None:
    assert has_token(values, TOKEN) is is_given

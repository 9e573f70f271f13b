"""Host and Origin of an endpoint on loopback."""

from __future__ import annotations

import pytest

from node_app.loopback.access import is_own_host, is_own_origin

PORT = 8123


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_the_names_of_the_only_address_in_any_case(name: str) -> None:
    assert is_own_host(f"{name}:8123", PORT)
    assert is_own_origin(f"http://{name}:8123", PORT)
    assert is_own_origin(f"HTTP://{name}:8123", PORT)


@pytest.mark.parametrize(
    "host",
    ["", "127.0.0.1", "127.0.0.1:8124", "127.0.0.1:81230", "[::1]:8123", "evil.example:8123", "127.0.0.1.evil:8123"],
)
def test_nobody_else(host: str) -> None:
    assert not is_own_host(host, PORT)
    assert not is_own_origin(f"http://{host}", PORT)


@pytest.mark.parametrize(
    "origin", ["", "null", "127.0.0.1:8123", "https://127.0.0.1:8123", "http://127.0.0.1:8123/", "http:127.0.0.1:8123"]
)
def test_an_origin_is_a_scheme_and_the_endpoint(origin: str) -> None:
    assert not is_own_origin(origin, PORT)

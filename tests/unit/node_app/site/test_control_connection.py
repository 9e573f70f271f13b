from __future__ import annotations

import pytest

from node_app.site.control_connection import control_url


@pytest.mark.parametrize(
    ("site_url", "expected"),
    [
        ("http://127.0.0.1:8000", "ws://127.0.0.1:8000/nodes/control"),
        ("https://site.example/meshnet", "wss://site.example/meshnet/nodes/control"),
    ],
)
def test_the_control_socket_is_at_the_site(site_url: str, expected: str) -> None:
    assert control_url(site_url) == expected

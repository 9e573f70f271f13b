from __future__ import annotations

import pytest

from node_app.relay.data_connection import data_url


@pytest.mark.parametrize(
    ("relay_url", "expected"),
    [
        ("ws://127.0.0.1:5", "ws://127.0.0.1:5/data"),
        ("wss://relay.example/", "wss://relay.example/data"),
        ("ws://127.0.0.1:5/data", "ws://127.0.0.1:5/data"),
        ("wss://site.example/relay/data", "wss://site.example/relay/data"),
    ],
)
def test_a_relay_is_named_with_or_without_its_path(relay_url: str, expected: str) -> None:
    assert data_url(relay_url) == expected

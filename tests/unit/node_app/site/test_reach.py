from __future__ import annotations

import pytest

from node_app.settings import parse_settings
from node_app.site.reach import choose_listen_address


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ([], "127.0.0.1:0"),
        (["--carrier", "direct"], "127.0.0.1:0"),
        (["--carrier", "relay"], ""),
        (["--carrier", "relay", "--link-listen", "127.0.0.1:5"], ""),
        (["--link-listen", "127.0.0.1:5"], "127.0.0.1:5"),
        (["--link-listen", "none"], ""),
    ],
)
def test_peers_dial_the_address_that_faces_the_site(options: list[str], address: str) -> None:
    settings = parse_settings(["--site", "http://127.0.0.1:8000", "--gguf", "m", *options], {})
    assert choose_listen_address(settings.site_url, settings.carrier, settings.link_listen) == address

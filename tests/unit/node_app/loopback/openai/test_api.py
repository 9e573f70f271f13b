"""The API's socket is the one that the volunteer asked for, or the command line is told what is wrong with it."""

from __future__ import annotations

import pytest

from node_app.loopback.openai.api import api_url, bind_api
from node_app.settings import SettingsError


def test_a_port_that_is_taken_is_told_with_its_option() -> None:
    with bind_api(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"--api-port {port}: .*; choose another, or omit it"):
            bind_api(port)


def test_the_url_is_what_clients_need() -> None:
    with bind_api(0) as listening:
        assert api_url(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

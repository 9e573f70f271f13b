"""What is said of an address on which the site cannot listen."""

from __future__ import annotations

import errno
import os
import socket
from typing import NoReturn

import pytest

from tracker_site.ops.server import ListenError, bind, probe_port

CODES = {
    errno.EADDRINUSE: ("port_taken", "choose another with --relay-port"),
    errno.EACCES: ("port_forbidden", "ports below 1024 need rights"),
    errno.EPERM: ("port_forbidden", "choose another with --relay-port"),
    errno.EADDRNOTAVAIL: ("address_unavailable", "--host"),
}


@pytest.mark.parametrize("number", CODES, ids=errno.errorcode.get)
def test_each_reason_has_its_code_and_its_remedy(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_socket: socket.socket, _address: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    class Refusing(socket.socket):
        bind = refuse

    monkeypatch.setattr("tracker_site.ops.server.socket.socket", Refusing)
    code, remedy = CODES[number]
    with pytest.raises(ListenError) as refused:
        bind("127.0.0.1", 80, "--relay-port")
    assert refused.value.code == code
    assert refused.value.message.startswith(f"cannot listen on 127.0.0.1:80: {os.strerror(number)}; ")
    assert remedy in refused.value.message


def test_a_name_that_is_no_address_is_the_host_s_fault() -> None:
    with pytest.raises(ListenError, match="--host") as refused:
        bind("no.such.host.invalid", 0, "--port")
    assert refused.value.code == "address_unavailable"


def test_a_free_port_is_found_and_let_go() -> None:
    port = probe_port("127.0.0.1", 0, "--port")
    with bind("127.0.0.1", port, "--port") as listening:
        assert listening.getsockname()[1] == port

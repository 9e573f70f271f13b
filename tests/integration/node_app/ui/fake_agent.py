"""A loopback endpoint that answers as an agent does, or as one should not."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

from node_app.status.local_address import AgentAddress, remove_address, write_address
from tests.unit.node_app.statuses import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN = "fake-agent-token-0123456789"


@dataclass
class FakeAgent:
    """Answers on 127.0.0.1 in threads of its own; `seen` lists what was asked.

    Attributes:
        misbehaviour: answers instead, where it is set.
    """

    state_dir: Path
    pid: int = field(default_factory=os.getpid)
    fields: dict[str, object] = field(default_factory=lambda: dict(FIELDS))
    seen: list[str] = field(default_factory=list)
    log_lines: list[str] = field(default_factory=list)
    misbehaviour: Callable[[BaseHTTPRequestHandler], None] | None = None
    refuses: str = ""
    is_gone_after_quit: bool = True

    def __enter__(self) -> Self:
        agent = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                agent.answer(self)

            def do_POST(self) -> None:
                agent.answer(self)

        self.over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.write_address()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_listening()
        remove_address(self.state_dir)

    def write_address(self, token: str = TOKEN) -> None:
        port = self._server.server_address[1]
        write_address(self.state_dir, AgentAddress(f"http://127.0.0.1:{port}", token, self.pid))

    def stop_listening(self) -> None:
        """As when the process was killed: the address file stays."""
        self.over.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5)
            self._server.server_close()

    def asked(self, what: str) -> int:
        return self.seen.count(what)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.seen.append(f"{handler.command} {handler.path}")
        if handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            reply(handler, 401, {"error": "wrong token"})
        elif self.misbehaviour is not None:
            self.misbehaviour(handler)
        elif handler.path == self.refuses:
            reply(handler, 500, {"error": "refused"})
        else:
            self._serve(handler)

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        match handler.command, handler.path:
            case "GET", "/log":
                reply(handler, 200, {"lines": self.log_lines})
                return
            case "POST", "/pause":
                self.fields["state"] = "paused"
            case "POST", "/resume":
                self.fields["state"] = "serving"
            case "POST", "/quit":
                reply(handler, 200, self.fields)
                if self.is_gone_after_quit:
                    remove_address(self.state_dir)
                return
        reply(handler, 200, self.fields)


def reply(handler: BaseHTTPRequestHandler, status: int, body: object) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def answer_garbage(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


def answer_another_page(handler: BaseHTTPRequestHandler) -> None:
    reply(handler, 200, ["not", "a", "status"])


def answer_hugely(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(64):
            handler.wfile.write(b" " * 65536)
    except OSError:
        return  # the tray has seen enough


def answer_half(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"state": "ser')


def answer_never(over: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: over.wait(10) and None


def answer_in_drips(over: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    """A byte now and then: no pause is long, and the end never comes."""

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        ends_s = time.monotonic() + 10
        try:
            while not over.wait(0.02) and time.monotonic() < ends_s:
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            return  # the tray gave up

    return drip


def redirect_elsewhere(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", f"http://127.0.0.1:{handler.server.server_address[1]}/elsewhere")
    handler.send_header("Content-Length", "0")
    handler.end_headers()

"""The relay process: `python -m tracker_site.relay`.

Invariants: it prints one JSON line as soon as it listens. On SIGTERM, on SIGINT, or if its parent process is gone, it
closes every connection and ends. All that it knows of the site is the site's public key.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys

from meshnet.keys import PUBLIC_KEY_BYTES
from tracker_site.relay.flow import RelayFlow
from tracker_site.relay.limits import RelayLimits
from tracker_site.relay.server import DATA_PATH, RelayServer

# Time within which the process notices that its parent is gone. It polls, because Linux's parent-death signal is sent
# when the starting thread ends, not the process.
_PARENT_POLL_S = 0.25

log = logging.getLogger("tracker_site.relay")


def _public_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("the key must be hexadecimal") from error
    if len(key) != PUBLIC_KEY_BYTES:
        raise argparse.ArgumentTypeError(f"the key must have {PUBLIC_KEY_BYTES} bytes")
    return key


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line; exit with status 2 if it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tracker_site.relay", description="Meshnet's relay.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--relay-id", required=True, help="named by every ticket for this relay")
    parser.add_argument("--site-public-key", required=True, type=_public_key, metavar="HEX")
    parser.add_argument("--parent-pid", type=int, default=os.getppid(), help="end with this process; 0: never")
    return parser.parse_args(arguments)


async def _parent_gone(parent_pid: int) -> None:
    """Return as soon as `parent_pid` is no longer this process's parent."""
    while os.getppid() == parent_pid:  # noqa: ASYNC110 - no event announces it
        await asyncio.sleep(_PARENT_POLL_S)
    log.warning("the parent process is gone; the relay ends")


async def run_relay(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT comes or the parent process is gone."""
    limits = RelayLimits()
    flow = RelayFlow(options.relay_id, options.site_public_key, limits)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with RelayServer(flow, limits).serving(options.host, options.port) as server:
        host, port = server.sockets[0].getsockname()[:2]
        url = f"ws://{host}:{port}{DATA_PATH}"
        print(json.dumps({"ready": True, "relay_id": options.relay_id, "port": port, "url": url}), flush=True)  # noqa: T201 - the ready line is this process's interface
        waits: list[asyncio.Task[bool] | asyncio.Task[None]] = [asyncio.create_task(stopped.wait())]
        if options.parent_pid:
            waits.append(asyncio.create_task(_parent_gone(options.parent_pid)))
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()


def main(arguments: list[str] | None = None) -> int:
    """Run the relay; return the exit status: 0 after a normal end, 1 if the relay cannot listen."""
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("websockets").setLevel(logging.WARNING)
    try:
        asyncio.run(run_relay(options))
    except OSError as error:
        log.error("cannot listen on %s:%d: %s", options.host, options.port, error.strerror)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Workers of one user and machine meet at sockets: nothing of the network takes part, and nobody else gets in."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from meshnet.failure_codes import FailureCode
from meshnet.sampling import SamplingTerms
from meshnet.v1 import link_pb2, session_pb2, worker_pb2
from tests.integration.native.hostile_peer import hello
from tests.integration.native.native_routes import WORKER, NativeRoute, native_route
from tests.integration.native.test_native_route import unsplit
from tests.simulators.bridged_route import CALL_TIMEOUT_S
from tests.simulators.fake_shards import terms
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.ports import free_port
from tests.simulators.route_terms import RouteTerms

pytestmark = pytest.mark.native

START_TIMEOUT_S = 20.0


@pytest.fixture
def links() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # short, as a socket's path has to be
        yield Path(folder)


def link_path(running: NativeRoute, stage: int, links: Path) -> Path:
    return links / f"{str(running.programs[stage].ready['link_fingerprint'])[:32]}.sock"


async def open_at(running: NativeRoute, given: RouteTerms, address: str) -> PlainGateway:
    """Open on both stages; the head is told that the tail listens at `address`."""
    for stage in range(2):
        spec = running.direct_spec(given, stage)
        for edge in spec.edges:
            if edge.carrier == session_pb2.EdgeSpec.CARRIER_DIRECT and edge.dial:
                edge.peer_address = address
        request = worker_pb2.OpenSessionRequest(spec=spec)
        reply = await running.route.workers[stage].stub.OpenSession(request, timeout=CALL_TIMEOUT_S)
        assert reply.accepted, reply.message
    return PlainGateway(running.route, given)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def nowhere() -> str:
    return f"127.0.0.1:{free_port()}"


async def test_they_need_no_network(tmp_path: Path, links: Path) -> None:
    async with native_route(tmp_path, [3], arguments=("--local-links", str(links))) as running:
        assert link_path(running, 1, links).is_socket()
        answer = await (await open_at(running, terms(), nowhere())).generate()
        assert len(running.route.frames) == 0
    assert answer.token_ids == unsplit(SamplingTerms())
    assert names_in(links) == set()


async def test_without_a_directory_the_same_address_is_not_reached(tmp_path: Path) -> None:
    """The control of the test above."""
    async with native_route(tmp_path, [3]) as running:
        failure = await (await open_at(running, terms(), nowhere())).until_failure()
    assert (failure.code, failure.stage) == (FailureCode.STAGE_LOST, 1)


async def test_a_socket_that_nobody_listens_at_is_passed_over(tmp_path: Path, links: Path) -> None:
    async with native_route(tmp_path, [3], arguments=("--local-links", str(links))) as running:
        path = link_path(running, 1, links)
        path.unlink()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        answer = await (await running.open_direct(terms())).generate()
    assert answer.token_ids == unsplit(SamplingTerms())


async def test_what_killed_workers_left_is_swept_and_nothing_else(tmp_path: Path, links: Path) -> None:
    arguments = ("--local-links", str(links))
    async with native_route(tmp_path, [3], arguments=arguments) as running:
        for program in running.programs:
            program.process.send_signal(signal.SIGKILL)
            await program.process.wait()
    left = names_in(links)
    (links / "notes.txt").write_text("not a socket")
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(links / "alive.sock"))
        alive.listen()
        async with native_route(tmp_path, [3], arguments=arguments) as running:
            names = names_in(links)
            own = {link_path(running, stage, links).name for stage in range(2)}
    assert len(left) == 2
    assert names == own | {"notes.txt", "alive.sock"}


@pytest.mark.parametrize(
    ("claimed", "code"),
    [
        (None, grpc.StatusCode.UNAUTHENTICATED),
        ("", grpc.StatusCode.UNAUTHENTICATED),
        ("ab" * 31, grpc.StatusCode.UNAUTHENTICATED),
        ("f" * 64, grpc.StatusCode.PERMISSION_DENIED),
    ],
)
async def test_who_claims_no_name_of_a_session_is_turned_away(
    tmp_path: Path, links: Path, claimed: str | None, code: grpc.StatusCode
) -> None:
    metadata = [] if claimed is None else [("meshnet-claimed-fingerprint", claimed)]
    said = [hello()] if code is grpc.StatusCode.PERMISSION_DENIED else []
    async with native_route(tmp_path, [3], arguments=("--local-links", str(links))) as running:
        async with grpc.aio.insecure_channel(f"unix:{link_path(running, 1, links)}") as channel:
            found = await _refusal(channel, metadata, *said)
        answer = await (await running.open_direct(terms())).generate()
    assert found is code
    assert answer.token_ids == unsplit(SamplingTerms())


async def test_a_claim_over_the_network_proves_nothing(tmp_path: Path, links: Path) -> None:
    async with native_route(tmp_path, [3], arguments=("--local-links", str(links))) as running:
        claimed = str(running.programs[0].ready["link_fingerprint"])
        async with grpc.aio.insecure_channel(str(running.programs[1].ready["link_address"])) as channel:
            code = await _refusal(channel, [("meshnet-claimed-fingerprint", claimed)])
    assert code is grpc.StatusCode.UNAVAILABLE


async def _refusal(
    channel: grpc.aio.Channel, metadata: list[tuple[str, str]], *said: link_pb2.LinkMessage
) -> grpc.StatusCode:
    """What a call ends with; one that is refused at once has no time to say anything."""
    call = channel.stream_stream(
        "/meshnet.v1.PeerLink/Link",
        request_serializer=link_pb2.LinkMessage.SerializeToString,
        response_deserializer=link_pb2.LinkMessage.FromString,
    )(metadata=metadata)
    async with asyncio.timeout(CALL_TIMEOUT_S):
        for message in said:
            await call.write(message)
        return await call.code()


@pytest.mark.parametrize("kind", ["missing", "a file", "open to others", "a link", "too long"])
def test_a_directory_of_others_is_refused(tmp_path: Path, links: Path, kind: str) -> None:
    path = links / ("l" * 90 if kind == "too long" else "d")
    if kind == "a file":
        path.write_text("")
    elif kind == "a link":
        (links / "real").mkdir(mode=0o700)
        path.symlink_to(links / "real")
    elif kind != "missing":
        path.mkdir(mode=0o755 if kind == "open to others" else 0o700)
    command = [WORKER, "--socket", tmp_path / "w.sock", "--link-listen", "127.0.0.1:0", "--local-links", path]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"meshnet-worker: {path} is ")
    assert len(ended.stderr.splitlines()) == 1

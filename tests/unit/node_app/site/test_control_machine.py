"""The node's control machine: every message in every phase."""

from __future__ import annotations

import pytest

from meshnet.constants import MAX_MESSAGE_BYTES, WIRE_VERSION, WIRE_VERSION_MIN
from meshnet.errors import ProtocolError
from meshnet.ids import SessionKey
from meshnet.keys import SignatureContext, SigningKey, verify
from meshnet.v1 import control_pb2, session_pb2
from node_app.site.control_machine import (
    EARNED_MAX_MICROS,
    OUTGOING_MAX,
    CloseAsked,
    ControlMachine,
    ControlPhase,
    NoticeTold,
    OpenAsked,
    SiteRefused,
    StoredTold,
    Welcomed,
)

KEY = SigningKey.from_bytes(bytes(range(32)))
NONCE = b"n" * 32
SESSION = SessionKey(b"s" * 16, 2)

CHALLENGE = control_pb2.SiteMessage(
    challenge=control_pb2.ControlChallenge(nonce=NONCE, wire_version_min=WIRE_VERSION, wire_version_max=WIRE_VERSION)
)
WELCOME = control_pb2.SiteMessage(
    welcome=control_pb2.ControlWelcome(
        node_id="node",
        heartbeat_ms=2500,
        relay_url="ws://relay",
        site_public_key=b"k" * 32,
        keep=[control_pb2.SessionRef(session=SESSION.session, epoch=SESSION.epoch)],
    )
)
OPEN = control_pb2.SiteMessage(
    open=control_pb2.OpenStage(request_id=4, spec=session_pb2.SessionSpec(session=SESSION.session))
)
CLOSE = control_pb2.SiteMessage(
    close=control_pb2.CloseStage(session=SESSION.session, epoch=SESSION.epoch, reason="done")
)
REFUSAL = control_pb2.SiteMessage(refusal=control_pb2.ControlRefusal(code="unknown_node", message="who?"))
EMPTY = control_pb2.SiteMessage()
STORED = control_pb2.SiteMessage(stored=control_pb2.ReportStored(report_id=7))
NOTICE = control_pb2.SiteMessage(notice=control_pb2.SiteNotice(code="artifact_unknown", message="not\nours"))

REPORT = control_pb2.NodeMessage(report=control_pb2.NodeReport())


def machine_in(phase: ControlPhase) -> ControlMachine:
    machine = ControlMachine(KEY, "1.2.3", [SESSION])
    if phase in {ControlPhase.AWAIT_WELCOME, ControlPhase.OPEN, ControlPhase.CLOSED}:
        machine.receive(CHALLENGE.SerializeToString())
    if phase in {ControlPhase.OPEN, ControlPhase.CLOSED}:
        machine.receive(WELCOME.SerializeToString())
    if phase is ControlPhase.CLOSED:
        machine.receive(REFUSAL.SerializeToString())
    machine.events()
    machine.messages_to_send()
    assert machine.phase is phase
    return machine


P = ControlPhase
# (phase, message) -> phase after it; None: a protocol error. What is not listed is an error.
TABLE = {
    (P.AWAIT_CHALLENGE, "challenge"): P.AWAIT_WELCOME,
    (P.AWAIT_WELCOME, "welcome"): P.OPEN,
    (P.OPEN, "open"): P.OPEN,
    (P.OPEN, "close"): P.OPEN,
    (P.OPEN, "notice"): P.OPEN,
    **{(phase, "refusal"): P.CLOSED for phase in P},
    **{(P.CLOSED, name): P.CLOSED for name in ("challenge", "welcome", "open", "close", "notice", "empty")},
}
MESSAGES = {
    "challenge": CHALLENGE,
    "welcome": WELCOME,
    "open": OPEN,
    "close": CLOSE,
    "refusal": REFUSAL,
    "notice": NOTICE,
    "empty": EMPTY,
}


@pytest.mark.parametrize("phase", P)
@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_in_every_phase(phase: ControlPhase, name: str) -> None:
    machine = machine_in(phase)
    data = MESSAGES[name].SerializeToString()
    if (phase, name) in TABLE:
        machine.receive(data)
        assert machine.phase is TABLE[phase, name]
    else:
        with pytest.raises(ProtocolError):
            machine.receive(data)
        assert machine.phase is P.CLOSED


@pytest.mark.parametrize("phase", [phase for phase in P if phase is not P.CLOSED])
@pytest.mark.parametrize("data", [b"\xff\xff\xff", bytes(MAX_MESSAGE_BYTES + 1)])
def test_bytes_that_are_no_message_close(phase: ControlPhase, data: bytes) -> None:
    machine = machine_in(phase)
    with pytest.raises(ProtocolError):
        machine.receive(data)
    assert machine.phase is P.CLOSED


def test_the_hello_proves_the_key_and_lists_the_sessions() -> None:
    machine = ControlMachine(KEY, "1.2.3", [SESSION])
    machine.receive(CHALLENGE.SerializeToString())
    (data,) = machine.messages_to_send()
    hello = control_pb2.NodeMessage.FromString(data).hello
    assert verify(hello.public_key, SignatureContext.CONTROL, NONCE, hello.signature)
    assert not verify(hello.public_key, SignatureContext.RELAY, NONCE, hello.signature)
    assert hello.software_version == "1.2.3"
    assert [(ref.session, ref.epoch) for ref in hello.open_sessions] == [(SESSION.session, SESSION.epoch)]


def test_the_welcome_is_told_with_what_to_keep() -> None:
    machine = machine_in(P.AWAIT_WELCOME)
    machine.receive(WELCOME.SerializeToString())
    assert machine.events() == [Welcomed("node", 2.5, "ws://relay", b"k" * 32, frozenset({SESSION}))]
    assert machine.events() == []
    assert machine.was_open


def test_opens_and_closes_are_told_in_order() -> None:
    machine = machine_in(P.OPEN)
    machine.receive(OPEN.SerializeToString())
    machine.receive(CLOSE.SerializeToString())
    assert machine.events() == [OpenAsked(OPEN.open), CloseAsked(SESSION, "done")]


def test_a_stored_report_is_told() -> None:
    machine = machine_in(P.OPEN)
    machine.receive(STORED.SerializeToString())
    assert machine.events() == [StoredTold(7)]


@pytest.mark.parametrize("earned_micros", [0, 1_500_000, EARNED_MAX_MICROS])
def test_earnings_come_with_a_stored_report(earned_micros: int) -> None:
    machine = machine_in(P.OPEN)
    stored = control_pb2.ReportStored(report_id=7, earned_micros=earned_micros)
    machine.receive(control_pb2.SiteMessage(stored=stored).SerializeToString())
    assert machine.events() == [StoredTold(7, earned_micros)]


@pytest.mark.parametrize("earned_micros", [EARNED_MAX_MICROS + 1, 2**64 - 1])
def test_impossible_earnings_close_the_connection(earned_micros: int) -> None:
    machine = machine_in(P.OPEN)
    stored = control_pb2.ReportStored(report_id=7, earned_micros=earned_micros)
    with pytest.raises(ProtocolError, match="earnings"):
        machine.receive(control_pb2.SiteMessage(stored=stored).SerializeToString())
    assert machine.phase is P.CLOSED


@pytest.mark.parametrize("phase", [P.AWAIT_CHALLENGE, P.AWAIT_WELCOME])
def test_no_report_can_be_stored_before_the_welcome(phase: ControlPhase) -> None:
    with pytest.raises(ProtocolError):
        machine_in(phase).receive(STORED.SerializeToString())


def test_a_refusal_is_told_with_the_sites_words() -> None:
    machine = machine_in(P.AWAIT_WELCOME)
    machine.receive(REFUSAL.SerializeToString())
    assert machine.events() == [SiteRefused("unknown_node", "who?")]
    assert not machine.was_open


@pytest.mark.parametrize(("low", "high"), [(WIRE_VERSION + 1, WIRE_VERSION + 2), (0, 0)])
def test_a_site_of_other_versions_is_refused_in_words(low: int, high: int) -> None:
    machine = ControlMachine(KEY, "1.2.3", [])
    challenge = control_pb2.ControlChallenge(nonce=NONCE, wire_version_min=low, wire_version_max=high)
    machine.receive(control_pb2.SiteMessage(challenge=challenge).SerializeToString())
    (event,) = machine.events()
    assert isinstance(event, SiteRefused)
    assert event.code == "version_mismatch"
    assert f"{low} to {high}" in event.message
    # The site may know who was here; nothing more is said to it.
    (hello,) = [control_pb2.NodeMessage.FromString(data) for data in machine.messages_to_send()]
    assert (hello.hello.wire_version_min, hello.hello.wire_version_max) == (WIRE_VERSION_MIN, WIRE_VERSION)
    assert machine.phase is P.CLOSED
    assert not machine.send(REPORT)


def test_a_notice_is_told_as_one_line_of_bounded_length() -> None:
    machine = machine_in(P.OPEN)
    machine.receive(NOTICE.SerializeToString())
    long = control_pb2.SiteNotice(code="c" * 1000, message="m" * 1000)
    machine.receive(control_pb2.SiteMessage(notice=long).SerializeToString())
    machine.receive(control_pb2.SiteMessage(notice=control_pb2.SiteNotice()).SerializeToString())
    told = [NoticeTold("artifact_unknown", "not ours"), NoticeTold("c" * 64, "m" * 300), NoticeTold("", "")]
    assert machine.events() == told


@pytest.mark.parametrize("nonce", [b"", b"n" * 31, b"n" * 33])
def test_a_nonce_of_another_length_is_not_signed(nonce: bytes) -> None:
    machine = ControlMachine(KEY, "1.2.3", [])
    challenge = control_pb2.ControlChallenge(nonce=nonce, wire_version_min=WIRE_VERSION, wire_version_max=WIRE_VERSION)
    with pytest.raises(ProtocolError):
        machine.receive(control_pb2.SiteMessage(challenge=challenge).SerializeToString())
    assert machine.messages_to_send() == []


@pytest.mark.parametrize("phase", P)
def test_reports_leave_only_over_an_open_connection(phase: ControlPhase) -> None:
    machine = machine_in(phase)
    assert machine.send(REPORT) is (phase is P.OPEN)
    assert len(machine.messages_to_send()) == (phase is P.OPEN)


def test_a_site_that_does_not_read_is_left() -> None:
    machine = machine_in(P.OPEN)
    assert all(machine.send(REPORT) for _ in range(OUTGOING_MAX))
    assert not machine.send(REPORT)
    assert machine.phase is P.CLOSED

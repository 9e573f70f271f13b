"""The site's end of a control connection: every message in every state, deadlines, and what must happen once."""

from __future__ import annotations

import pytest

from meshnet.constants import WIRE_VERSION
from meshnet.ids import SessionKey
from meshnet.keys import SignatureContext, SigningKey
from meshnet.v1 import control_pb2
from tests.site import wire
from tracker_site.control_plane.control_events import (
    Ended,
    HelloProven,
    HelloUnusable,
    Opened,
    OpenFailed,
    OpenRequest,
    Reported,
)
from tracker_site.control_plane.node_connection import (
    MAX_CONTROL_MESSAGE_BYTES,
    MAX_PENDING_OPENS,
    PERMITTED,
    ConnectionTerms,
    NodeConnection,
    State,
)
from tracker_site.nodes.notices import Notice

KEY = SigningKey.from_bytes(b"k" * 32)
NONCE = b"n" * 32
TERMS = ConnectionTerms(NONCE, 5_000, 15_000, 5.0, "ws://127.0.0.1:1", b"p" * 32)
NODE_ID = "6a5f1d6c-0000-4000-8000-000000000001"

MESSAGES = {
    "hello": wire.hello(KEY, NONCE),
    "report": control_pb2.NodeMessage(report=wire.report(wire.shard())),
    "opened": control_pb2.NodeMessage(opened=control_pb2.StageOpened(request_id=1)),
    "refused": control_pb2.NodeMessage(
        refused=control_pb2.StageRefused(request_id=1, code="kv_exhausted", message="full")
    ),
    "ended": control_pb2.NodeMessage(ended=control_pb2.StageEnded(session=wire.SESSION, epoch=1, stage=2, code="idle")),
}


def connection_in(state: State) -> NodeConnection:
    connection = NodeConnection(TERMS, 0.0)
    if state is State.CLOSED:
        connection.connection_lost()
    elif state is not State.AWAITING_HELLO:
        connection.receive(MESSAGES["hello"].SerializeToString(), 1.0)
        if state is State.OPEN:
            connection.identified(NODE_ID, [], 1.0)
    assert connection.state is state
    connection.messages_to_send()
    connection.events()
    return connection


def sent(connection: NodeConnection) -> list[control_pb2.SiteMessage]:
    return [control_pb2.SiteMessage.FromString(data) for data in connection.messages_to_send()]


def refusal_code(connection: NodeConnection) -> str:
    assert connection.is_closed
    last = sent(connection)[-1]
    assert last.WhichOneof("body") == "refusal"
    return last.refusal.code


def request(session: bytes = wire.SESSION, stage: int = 0, timeout_s: float = 3.0) -> OpenRequest:
    return OpenRequest(wire.open_stage(session, stage=stage), "answers", "news", timeout_s)


def test_it_begins_with_a_challenge() -> None:
    (challenge,) = sent(NodeConnection(TERMS, 0.0))
    assert challenge.challenge.nonce == NONCE
    assert challenge.challenge.wire_version_min <= WIRE_VERSION <= challenge.challenge.wire_version_max


def test_every_message_in_every_state() -> None:
    cells = 0
    for state in State:
        for name, message in MESSAGES.items():
            connection = connection_in(state)
            connection.receive(message.SerializeToString(), 2.0)
            cells += 1
            if state is State.CLOSED:
                assert (connection.messages_to_send(), connection.events()) == ([], []), (state, name)
            elif name in PERMITTED[state]:
                assert not connection.is_closed, (state, name)
            else:
                assert refusal_code(connection) == "unexpected_message", (state, name)
                assert connection.events() == [], (state, name)
    assert cells == 20


def test_a_proven_hello_is_reported_and_welcomed() -> None:
    connection = NodeConnection(TERMS, 0.0)
    sent(connection)
    connection.receive(wire.hello(KEY, NONCE, (wire.SESSION, 2)).SerializeToString(), 1.0)
    key = SessionKey(wire.SESSION, 2)
    assert connection.events() == [HelloProven(KEY.public_key, "1.2", frozenset({key}))]
    assert sent(connection) == []
    connection.identified(NODE_ID, [key], 1.0)
    (message,) = sent(connection)
    welcome = message.welcome
    assert (welcome.node_id, welcome.heartbeat_ms, welcome.lease_ms) == (NODE_ID, 5_000, 15_000)
    assert (welcome.relay_url, welcome.site_public_key) == (TERMS.relay_url, TERMS.site_public_key)
    assert [(one.session, one.epoch) for one in welcome.keep] == [(wire.SESSION, 2)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"signature": b"x" * 64}, "bad_signature"),
        ({"signature": b""}, "bad_signature"),
        ({"public_key": b"short"}, "bad_signature"),
        ({"signature": KEY.sign(SignatureContext.RELAY, NONCE)}, "bad_signature"),
        ({"signature": KEY.sign(SignatureContext.CONTROL, b"another nonce")}, "bad_signature"),
        ({"wire_version_min": WIRE_VERSION + 1, "wire_version_max": WIRE_VERSION + 9}, "version_mismatch"),
        ({"wire_version_min": 0, "wire_version_max": 0}, "version_mismatch"),
        ({"open_sessions": [control_pb2.SessionRef(session=b"short", epoch=1)]}, "malformed"),
        ({"open_sessions": [control_pb2.SessionRef(session=wire.SESSION, epoch=0)]}, "malformed"),
    ],
)
def test_hellos_that_are_refused(change: dict[str, object], code: str) -> None:
    connection = connection_in(State.AWAITING_HELLO)
    hello = wire.hello(KEY, NONCE).hello
    for name in change:
        hello.ClearField(name)
    hello.MergeFrom(control_pb2.ControlHello(**change))
    connection.receive(control_pb2.NodeMessage(hello=hello).SerializeToString(), 1.0)
    events = connection.events()
    assert refusal_code(connection) == code
    # Whose key it is, is proven: the admin can be told who speaks other versions.
    assert [type(event) for event in events] == ([HelloUnusable] if code == "version_mismatch" else [])


def test_a_notice_is_told_once_until_it_changes() -> None:
    connection, wrong = connection_in(State.OPEN), Notice("artifact_unknown", "not ours")
    for notice in (Notice(), wrong, wrong, Notice(), Notice()):
        connection.tell(notice)
    told = [(message.notice.code, message.notice.message) for message in sent(connection)]
    assert told == [("artifact_unknown", "not ours"), ("", "")]


@pytest.mark.parametrize("state", [state for state in State if state is not State.OPEN])
def test_nothing_is_told_on_a_connection_that_is_not_open(state: State) -> None:
    connection = connection_in(state)
    connection.tell(Notice("artifact_unknown", "not ours"))
    assert connection.messages_to_send() == []


@pytest.mark.parametrize("state", [State.AWAITING_HELLO, State.OPEN])
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "malformed"),
        (b"\xff\xff\xff", "malformed"),
        (b"\x00" * (MAX_CONTROL_MESSAGE_BYTES + 1), "message_too_large"),
    ],
    ids=["empty", "garbage", "oversize"],
)
def test_bytes_that_are_no_message(state: State, data: bytes, code: str) -> None:
    connection = connection_in(state)
    connection.receive(data, 2.0)
    assert refusal_code(connection) == code


def test_reports_and_endings_become_events() -> None:
    connection = connection_in(State.OPEN)
    connection.receive(MESSAGES["report"].SerializeToString(), 2.0)
    connection.receive(MESSAGES["ended"].SerializeToString(), 2.0)
    reported, ended = connection.events()
    assert isinstance(reported, Reported)
    assert reported.report.shards[0][0].layer_end == 8
    assert ended == Ended(SessionKey(wire.SESSION, 1), 2, "idle", "")


@pytest.mark.parametrize("state", [State.OPEN, State.CLOSED])
def test_a_stored_report_is_confirmed_while_open(state: State) -> None:
    connection = connection_in(state)
    connection.report_stored(7)
    assert [message.stored.report_id for message in sent(connection)] == ([7] if state is State.OPEN else [])


def test_earnings_are_told_with_a_stored_report_and_only_where_they_are_given() -> None:
    connection = connection_in(State.OPEN)
    connection.report_stored(7)
    connection.report_stored(8, 0)
    connection.report_stored(0, 5)  # nobody wants a word of this one
    first, second = (message.stored for message in sent(connection))
    assert not first.HasField("earned_micros")
    assert second.HasField("earned_micros")
    assert (second.report_id, second.earned_micros) == (8, 0)


def test_a_stage_is_opened() -> None:
    connection = connection_in(State.OPEN)
    wanted = request()
    connection.open_stage(wanted, 2.0)
    (message,) = sent(connection)
    assert message.open.spec == wanted.open.spec
    answer = control_pb2.StageOpened(request_id=message.open.request_id, contract=wire.contract())
    connection.receive(control_pb2.NodeMessage(opened=answer).SerializeToString(), 2.5)
    assert connection.events() == [Opened(wanted, answer)]
    # Said twice, it counts once.
    connection.receive(control_pb2.NodeMessage(opened=answer).SerializeToString(), 2.5)
    assert connection.events() == []


def test_a_stage_is_refused() -> None:
    connection = connection_in(State.OPEN)
    connection.open_stage(request(), 2.0)
    connection.receive(MESSAGES["refused"].SerializeToString(), 2.5)
    assert connection.events() == [OpenFailed(request(), "kv_exhausted", "full")]


@pytest.mark.parametrize("code", ["", "x" * 65, "<b>", "Kv_Exhausted", "idle\n"])
@pytest.mark.parametrize("body", ["refused", "ended"])
def test_a_code_that_is_none_closes_the_connection(body: str, code: str) -> None:
    connection = connection_in(State.OPEN)
    message = control_pb2.NodeMessage.FromString(MESSAGES[body].SerializeToString())
    getattr(message, body).code = code
    connection.receive(message.SerializeToString(), 2.5)
    assert connection.is_closed
    assert sent(connection)[-1].refusal.code == "malformed"


def test_no_answer_in_time_fails_and_a_late_one_is_undone() -> None:
    connection = connection_in(State.OPEN)
    connection.open_stage(request(timeout_s=3.0), 2.0)
    sent(connection)
    assert connection.next_deadline_s() == 5.0
    connection.tick(4.999)
    assert connection.events() == []
    connection.tick(5.0)
    (failed,) = connection.events()
    assert isinstance(failed, OpenFailed)
    assert failed.code == "stage_lost"
    connection.receive(MESSAGES["opened"].SerializeToString(), 6.0)
    assert connection.events() == []
    (message,) = sent(connection)
    assert (message.close.session, message.close.epoch) == (wire.SESSION, 1)


def test_closing_gives_up_an_unanswered_request() -> None:
    connection = connection_in(State.OPEN)
    connection.open_stage(request(), 2.0)
    sent(connection)
    connection.close_stage(SessionKey(wire.SESSION, 1), "client left")
    assert [message.WhichOneof("body") for message in sent(connection)] == ["close"]
    assert connection.events() == [OpenFailed(request(), "cancelled", "client left")]
    connection.receive(MESSAGES["opened"].SerializeToString(), 3.0)
    assert [message.WhichOneof("body") for message in sent(connection)] == ["close"]
    assert connection.events() == []


@pytest.mark.parametrize("state", [State.AWAITING_HELLO, State.IDENTIFYING, State.CLOSED])
def test_no_stage_opens_on_a_connection_that_is_not_open(state: State) -> None:
    connection = connection_in(state)
    connection.open_stage(request(), 2.0)
    connection.close_stage(SessionKey(wire.SESSION, 1), "never mind")
    assert sent(connection) == []
    assert [type(event) for event in connection.events()] == [OpenFailed]


def test_unanswered_requests_are_bounded() -> None:
    connection = connection_in(State.OPEN)
    for number in range(MAX_PENDING_OPENS + 1):
        connection.open_stage(request(stage=number % 60), 2.0)
    (failed,) = connection.events()
    assert isinstance(failed, OpenFailed)
    assert failed.code == "too_many_sessions"
    assert len(sent(connection)) == MAX_PENDING_OPENS


def test_the_end_answers_everybody_once() -> None:
    connection = connection_in(State.OPEN)
    connection.open_stage(request(), 2.0)
    connection.open_stage(request(stage=1), 2.0)
    connection.connection_lost()
    connection.connection_lost()
    assert [type(event) for event in connection.events()] == [OpenFailed, OpenFailed]
    assert connection.next_deadline_s() is None


def test_no_hello_in_time() -> None:
    connection = connection_in(State.AWAITING_HELLO)
    connection.tick(4.9)
    assert not connection.is_closed
    connection.tick(5.0)
    assert refusal_code(connection) == "hello_timeout"


def test_silence_ends_the_lease_and_reports_extend_it() -> None:
    connection = connection_in(State.OPEN)
    connection.receive(MESSAGES["report"].SerializeToString(), 10.0)
    connection.tick(16.5)
    assert not connection.is_closed
    connection.receive(MESSAGES["ended"].SerializeToString(), 24.0)  # not a report
    connection.tick(25.0)
    assert refusal_code(connection) == "lease_expired"

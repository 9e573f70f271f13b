"""A local session's life: every message while it runs and when it is over, and every deadline."""

from __future__ import annotations

import pytest

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.frame import (
    Ack,
    Close,
    EdgeBody,
    EdgeMessage,
    FinishReason,
    Frame,
    Keepalive,
    PrefillProgress,
    SessionGone,
    StageFailure,
)
from meshnet.generation.progress import PrefillAdvanced, TokenReceived
from meshnet.ids import Edge, SessionKey
from meshnet.openai.events import FinishReason as Reason
from node_app.sessions.local.machine import LocalMachine
from tests.unit.node_app.sessions.local.local_kit import (
    CONTEXT_LENGTH,
    END_TOKEN,
    KEY,
    PROMPT_EDGE,
    TOKEN_EDGE,
    a_request,
    a_token,
    from_worker,
    terms_of,
)

NOW_S = 1000.0


def a_machine(prompt_tokens: int = 300, max_tokens: int = 40) -> LocalMachine:
    return LocalMachine(terms_of(a_request(prompt_tokens, max_tokens)), CONTEXT_LENGTH, NOW_S)


def fed(machine: LocalMachine) -> LocalMachine:
    """The whole prompt has left and was computed."""
    for seq in range(3):
        machine.receive(from_worker(Ack(seq)), NOW_S)
    machine.messages_to_send()
    return machine


def running(*, prompt_tokens: int = 300, max_tokens: int = 40) -> LocalMachine:
    machine = a_machine(prompt_tokens, max_tokens)
    if prompt_tokens > 256:
        return fed(machine)
    machine.messages_to_send()
    return machine


def test_the_prompt_leaves_in_marked_chunks_within_the_window() -> None:
    machine = a_machine(prompt_tokens=128 * 5 + 1)
    first = machine.messages_to_send()
    machine.receive(from_worker(Ack(0)), NOW_S)
    machine.receive(from_worker(Ack(0)), NOW_S)  # again: no news
    second = machine.messages_to_send()
    machine.receive(from_worker(Ack(3)), NOW_S)
    third = machine.messages_to_send()
    assert [len(part) for part in (first, second, third)] == [3, 1, 2]
    frames = [frame for frame in first + second + third if isinstance(frame, Frame)]
    assert [(frame.seq, frame.position, frame.rows) for frame in frames] == [
        (seq, seq * 128, 128 if seq < 5 else 1) for seq in range(6)
    ]
    assert [frame.prompt_end for frame in frames] == [False] * 5 + [True]
    assert frames[-1].logits_rows == (0,)


def test_tokens_and_progress_reach_the_reader_once() -> None:
    machine = running()
    for done in (128, 128, 300):
        machine.receive(from_worker(PrefillProgress(done)), NOW_S)
    for token in (a_token(0), a_token(0), a_token(1)):
        machine.receive(from_worker(token), NOW_S)
    events = machine.events()
    assert events[:2] == [PrefillAdvanced(128, 300), PrefillAdvanced(300, 300)]
    assert [event.index for event in events[2:] if isinstance(event, TokenReceived)] == [0, 1]
    assert machine.events() == []
    assert not machine.is_over


@pytest.mark.parametrize(
    ("token_id", "finish", "reason"),
    [(END_TOKEN, FinishReason.STOP, Reason.STOP), (65, FinishReason.LENGTH, Reason.LENGTH)],
)
def test_a_finish_ends_it(token_id: int, finish: FinishReason, reason: Reason) -> None:
    machine = running(max_tokens=1)
    machine.receive(from_worker(a_token(0, token_id=token_id, finish=finish)), NOW_S)
    (event,) = machine.events()
    assert isinstance(event, TokenReceived)
    assert event.finish is reason
    assert (machine.is_over, machine.failure, machine.next_deadline_s()) == (True, None, None)


STRANGE: list[tuple[EdgeMessage, str]] = [
    (from_worker(Ack(7)), "malformed"),
    (from_worker(Ack(0), edge=TOKEN_EDGE), "malformed"),
    (from_worker(Ack(0), edge=Edge(0, 0)), "malformed"),
    (from_worker(PrefillProgress(1), edge=Edge(0, 0)), "malformed"),
    (from_worker(PrefillProgress(1), key=SessionKey(KEY.session, 2)), "malformed"),
    (from_worker(PrefillProgress(1), key=SessionKey(b"t" * 16, 1)), "malformed"),
    (from_worker(PrefillProgress(301)), "malformed"),
    (from_worker(a_token(1)), "sequence_gap"),
    (from_worker(a_token(0, token_id=260)), "bad_token_id"),
    (from_worker(a_token(0, prompt_tokens=299)), "wrong_position"),
    (from_worker(a_token(0, finish=FinishReason.LENGTH)), "malformed"),
    (from_worker(a_token(TOKEN_ACK_WINDOW)), "window_exceeded"),
    (from_worker(StageFailure("engine_failed", "the engine failed", 0)), "engine_failed"),
    (from_worker(SessionGone("closed")), "stage_lost"),
    (from_worker(SessionGone("closed"), edge=PROMPT_EDGE), "stage_lost"),
]


@pytest.mark.parametrize(("message", "code"), STRANGE)
def test_what_no_honest_worker_sends_fails_it(message: EdgeMessage, code: str) -> None:
    machine = running()
    machine.receive(message, NOW_S)
    assert machine.failure is not None
    assert (machine.failure.code, machine.failure.stage, machine.is_over) == (code, 0, True)


def test_a_token_before_the_prompts_end_fails_it() -> None:
    machine = a_machine(prompt_tokens=128 * 5)
    machine.receive(from_worker(a_token(0, prompt_tokens=128 * 5)), NOW_S)
    assert machine.failure is not None
    assert machine.failure.code == "malformed"


@pytest.mark.parametrize("body", [Close("no"), Keepalive()])
def test_what_says_nothing_changes_nothing(body: EdgeBody) -> None:
    machine = running()
    machine.receive(from_worker(body), NOW_S)
    assert (machine.events(), machine.messages_to_send(), machine.is_over) == ([], [], False)


@pytest.mark.parametrize("how", ["failed", "closed", "finished"])
def test_nothing_happens_once_it_is_over(how: str) -> None:
    machine = running(max_tokens=1)
    if how == "failed":
        machine.fail("worker_lost", "the worker ended")
    elif how == "closed":
        machine.close()
    else:
        machine.receive(from_worker(a_token(0, finish=FinishReason.LENGTH)), NOW_S)
        machine.events()
    failure = machine.failure
    honest = [from_worker(Ack(0)), from_worker(PrefillProgress(300)), from_worker(a_token(0))]
    for message in [*honest, *(message for message, _ in STRANGE)]:
        machine.receive(message, NOW_S + 1)
    machine.acknowledge(0, NOW_S + 1)
    machine.tick(NOW_S + 10_000)
    machine.fail("engine_failed", "later")
    machine.close()
    assert (machine.events(), machine.messages_to_send()) == ([], [])
    assert machine.failure is failure
    assert machine.next_deadline_s() is None


def test_acknowledgements_are_cumulative_and_in_time() -> None:
    machine = running()
    for index in range(10):
        machine.receive(from_worker(a_token(index)), NOW_S)
    machine.acknowledge(2, NOW_S)
    assert machine.messages_to_send() == []  # few: not worth a message yet
    due_s = machine.next_deadline_s()
    assert due_s is not None
    assert due_s <= NOW_S + 0.25
    machine.tick(due_s)
    assert machine.messages_to_send() == [from_worker(Ack(2), edge=TOKEN_EDGE)]
    machine.acknowledge(9, due_s)
    machine.tick(due_s + 0.25)
    assert machine.messages_to_send() == [from_worker(Ack(9), edge=TOKEN_EDGE)]
    with pytest.raises(ValueError, match="has not come"):
        machine.acknowledge(10, due_s)


def test_silence_ends_it_and_every_sign_of_life_gives_it_time() -> None:
    machine = running()
    patience_s = 8.0 + 2.0  # a step's deadline, and the margin
    machine.receive(from_worker(PrefillProgress(128)), NOW_S + 5)
    machine.tick(NOW_S + 5 + patience_s - 0.01)
    assert not machine.is_over
    machine.tick(NOW_S + 5 + patience_s)
    assert machine.failure is not None
    assert machine.failure.code == "step_timeout"


def test_a_tail_that_waits_for_its_reader_has_the_grace_as_well() -> None:
    machine = running(max_tokens=100)
    for index in range(TOKEN_ACK_WINDOW):
        machine.receive(from_worker(a_token(index)), NOW_S)
    machine.tick(NOW_S + 11.9)
    assert not machine.is_over
    machine.tick(NOW_S + 12.0)
    assert machine.is_over


def test_the_session_is_told_that_it_lives() -> None:
    machine, now_s, keepalives = running(), NOW_S, 0
    while now_s < NOW_S + 65:
        now_s += 5
        machine.receive(from_worker(PrefillProgress(int(now_s - NOW_S))), now_s)
        machine.tick(now_s)
        keepalives += machine.messages_to_send().count(from_worker(Keepalive(), edge=PROMPT_EDGE))
    assert keepalives == 3
    assert not machine.is_over

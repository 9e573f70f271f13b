from __future__ import annotations

from meshnet.ids import SessionKey
from meshnet.packets import PACKET_OVERHEAD_BYTES, Packet, PacketKind
from node_app.relay.packet_queue import PacketQueue, QueueResult

A, B, C = (SessionKey(bytes([number]) * 16, 1) for number in range(3))
LARGE = 10**9


def packet(key: SessionKey, number: int, size_bytes: int = 100) -> Packet:
    payload = bytes([number]) * (size_bytes - PACKET_OVERHEAD_BYTES)
    return Packet(key, 0, 1, PacketKind.FRAME, payload)


def numbers(batch: list[Packet]) -> list[tuple[SessionKey, int]]:
    return [(one.key, one.payload[0]) for one in batch]


def always(_: Packet) -> bool:
    return True


def queue_of(*keys: SessionKey, limit_bytes: int = 1000) -> PacketQueue:
    queue = PacketQueue()
    for key in keys:
        queue.admit(key, limit_bytes)
    return queue


def test_packets_of_unknown_sessions_are_dropped_and_counted() -> None:
    queue = queue_of(A)
    assert queue.offer(packet(B, 1)) is QueueResult.STRAY
    assert (queue.stray_packets, len(queue)) == (1, 0)


def test_a_session_holds_its_limit_and_no_more_and_hurts_nobody_else() -> None:
    queue = queue_of(A, B, limit_bytes=250)
    assert [queue.offer(packet(A, number)) for number in range(3)] == [
        QueueResult.TAKEN,
        QueueResult.TAKEN,
        QueueResult.OVERFLOW,
    ]
    assert queue.offer(packet(B, 1)) is QueueResult.TAKEN
    queue.take(LARGE, always)
    assert queue.offer(packet(A, 4)) is QueueResult.TAKEN


def test_sessions_take_turns_and_keep_their_order() -> None:
    queue = queue_of(A, B)
    for number in (1, 2, 3):
        queue.offer(packet(A, number))
    queue.offer(packet(B, 9))
    assert numbers(queue.take(LARGE, always)) == [(A, 1), (B, 9), (A, 2), (A, 3)]
    assert queue.take(LARGE, always) == []


def test_a_batch_is_bounded_but_never_empty() -> None:
    queue = queue_of(A)
    queue.offer(packet(A, 1, size_bytes=500))
    queue.offer(packet(A, 2))
    assert numbers(queue.take(10, always)) == [(A, 1)]
    assert numbers(queue.take(10, always)) == [(A, 2)]


def test_who_got_no_turn_goes_first_the_next_time() -> None:
    queue = queue_of(A, B, C)
    for key in (A, B, C):
        queue.offer(packet(key, 1))
        queue.offer(packet(key, 2))
    order = [numbers(queue.take(100, always))[0][0] for _ in range(6)]
    assert order == [A, B, C, A, B, C]


def test_what_may_not_leave_stays_and_holds_up_nobody() -> None:
    queue = queue_of(A, B)
    queue.offer(packet(A, 1))
    queue.offer(packet(B, 2))
    assert numbers(queue.take(LARGE, lambda one: one.key != A)) == [(B, 2)]
    assert numbers(queue.take(LARGE, always)) == [(A, 1)]


def test_a_dropped_session_leaves_nothing() -> None:
    queue = queue_of(A)
    queue.offer(packet(A, 1))
    queue.drop(A)
    queue.drop(A)
    assert len(queue) == 0
    assert queue.offer(packet(A, 2)) is QueueResult.STRAY

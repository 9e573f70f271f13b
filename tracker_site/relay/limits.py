"""Limits of the relay, each with its unit.

Invariant: a member that reads nothing costs the relay a bounded amount of memory. Four things can wait for it: packets,
as many as the windows of its lanes (queues) allow; answers; the message that is being written; the socket's buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshnet.constants import MAX_MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Limits of one relay process.

    Attributes:
        message_max_bytes: size of a WebSocket message, in either direction.
        members_max: number of open connections.
        bindings_max: number of one member's bindings. A site process has one for each of its running generations.
        granted_max_bytes: sum of the windows of all lanes (queues of packets) that lead to one member.
        control_window_bytes: bytes by which the window of each lane is enlarged for control packets.
        answers_max: the relay's own messages (bound, refused, lost) waiting for one member.
        proof_timeout_s: time from the challenge to the proof.
        keepalive_s: time between pings, and the longest time until a pong.
        write_stall_s: if writing one message takes longer, its member is dismissed.
    """

    message_max_bytes: int = MAX_MESSAGE_BYTES
    members_max: int = 20_000
    bindings_max: int = 4_096
    granted_max_bytes: int = 512 * 1024 * 1024
    control_window_bytes: int = 32 * 1024
    answers_max: int = 8_192
    proof_timeout_s: float = 5.0
    keepalive_s: float = 20.0
    write_stall_s: float = 15.0

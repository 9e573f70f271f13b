"""The deadlines and bounds that an endpoint on loopback sets its clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Deadlines and bounds of one endpoint.

    Attributes:
        connections_max: served at once; as many more are answered 503, and further ones are closed unanswered.
        end_grace_s: time for answers in progress if the server ends.
        head_max_bytes: of a request's head, blank line included.
        head_timeout_s: from the connection to the end of the head.
        body_max_bytes: of a request's body; 0 if requests have none.
        body_timeout_s: from the end of the head to the end of the body.
        stall_s: if a client reads nothing for this long, its connection is closed.
        linger_s: after a refusal, bytes that the client still sends are read and dropped for this long; otherwise it
            would never see the refusal.
        linger_max_bytes: dropped at most, also of bytes that come while a client is answered.
    """

    connections_max: int = 32
    end_grace_s: float = 1.0
    head_max_bytes: int = 32 * 1024
    head_timeout_s: float = 10.0
    body_max_bytes: int = 0
    body_timeout_s: float = 30.0
    stall_s: float = 30.0
    linger_s: float = 2.0
    linger_max_bytes: int = 64 * 1024 * 1024

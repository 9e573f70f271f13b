"""The deadlines and bounds that an endpoint on loopback sets for its clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Deadlines and bounds for the clients of one endpoint.

    Attributes:
        connections_max: connections served at once; as many more are answered 503, further ones closed unanswered.
        end_grace_s: time that answers in progress get if the server ends.
        head_max_bytes: the largest head of a request, its blank line included.
        head_timeout_s: time from the connection to the end of the head.
        body_max_bytes: the largest body of a request; 0 if requests must not have one.
        body_timeout_s: time from the end of the head to the end of the body.
        stall_s: a client that reads nothing for this long is disconnected.
        linger_s: if the client still sends when it is answered, its bytes are read and dropped for this long before
            the connection is closed; otherwise the client might never see the answer.
        linger_max_bytes: the most bytes that are dropped after a request; a client that sends more is disconnected.
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

"""What the local API bears of its clients."""

from __future__ import annotations

from dataclasses import dataclass

from meshnet.generation.deadlines import TOKENISE_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """Deadlines and bounds of one API; those of a body are shared with the site's (`meshnet.openai.http_refusals`).

    Attributes:
        connections_max: served at once; as many again are answered 503, the rest are cut.
        end_grace_s: what answers in progress get to say that the node ends.
        head_max_bytes: of a request's head.
        head_timeout_s: from the connection to the end of the head.
        body_timeout_s: from there to the end of the body.
        stall_s: a client that takes nothing for this long is cut.
        linger_s: a refused client may still be sending: what it sends is thrown away for this long, or it would never
            see the refusal.
        linger_max_bytes: thrown away at most, also while a client is answered.
        tokenise_timeout_s: loading the vocabulary at first, rendering and tokenising, waiting for a turn included.
    """

    connections_max: int = 32
    end_grace_s: float = 1.0
    head_max_bytes: int = 32 * 1024
    head_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    stall_s: float = 30.0
    linger_s: float = 2.0
    linger_max_bytes: int = 64 * 1024 * 1024
    tokenise_timeout_s: float = TOKENISE_TIMEOUT_S

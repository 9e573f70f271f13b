"""Numbers of the protocol that both sides must agree on.

Invariant: each has a unit in its name or comment, and the section of docs/wire.md, or the standard, that it comes from.
"""

from __future__ import annotations

from typing import Final

# Wire versions spoken by this code; peers settle on the highest common one. Source: What must match.
WIRE_VERSION_MIN: Final = 1
WIRE_VERSION: Final = 1

# Version of what a shard's graph means; part of every route's contract digest. Source: What must match.
GRAPH_SEMANTICS_VERSION: Final = 1

# Random bytes that name a Route Session. Source: Addresses.
SESSION_ID_BYTES: Final = 16

# Stages on one route, at most; stage indices are 0 .. MAX_STAGES - 1. Source: Addresses.
MAX_STAGES: Final = 64

# Stage index that stands for the Gateway in an edge; beyond every real stage. Source: Addresses.
GATEWAY_STAGE: Final = 127

# Largest message on any carrier, in bytes; larger chunks travel as fragments. Source: Frames.
MAX_MESSAGE_BYTES: Final = 512 * 1024

# How long a closed (session, epoch) is remembered, so that late frames are told from strangers.
# Source: Closing and admission.
CLOSED_MEMORY_S: Final = 60.0

# Token events the tail may run past the Gateway's last acknowledgement. Source: Credits.
TOKEN_ACK_WINDOW: Final = 32

# How long the tail waits for a Gateway that went away before it fails the session. Source: Credits.
GATEWAY_GRACE_S: Final = 2.0

# Unacknowledged decode frames on an edge of one session. Source: Credits.
DECODE_WINDOW_FRAMES: Final = 1

# Amounts are counted and told in millionths of a credit. Source: Time, `earned_micros`.
MICROS_PER_CREDIT: Final = 1_000_000

# The highest port number. Source: RFC 9293, 3.1.
PORT_MAX: Final = 65535

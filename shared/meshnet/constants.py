"""Numbers of the protocol that both sides must agree on.

Invariant: each has a unit in its name or comment, and names its source: a section of docs/wire.md, or a standard.
"""

from __future__ import annotations

from typing import Final

# Wire versions that this code speaks; peers use the highest one that both speak. Source: What must match.
WIRE_VERSION_MIN: Final = 1
WIRE_VERSION: Final = 1

# Version of the meaning of a shard's graph; part of every route's contract digest. Source: What must match.
GRAPH_SEMANTICS_VERSION: Final = 1

# Number of random bytes in a Route Session's id. Source: Addresses.
SESSION_ID_BYTES: Final = 16

# Most stages on one route; stage indices are 0 to MAX_STAGES - 1. Source: Addresses.
MAX_STAGES: Final = 64

# Stage index that stands for the Gateway in an edge; it is above every stage of a route. Source: Addresses.
GATEWAY_STAGE: Final = 127

# Largest message on any carrier, in bytes; a larger frame travels as fragments. Source: Frames.
MAX_MESSAGE_BYTES: Final = 512 * 1024

# How long a closed (session, epoch) is remembered, so that its late frames are told from those of an unknown session.
# Source: Closing and admission.
CLOSED_MEMORY_S: Final = 60.0

# Number of token events that the tail may run past the Gateway's last acknowledgement. Source: Credits.
TOKEN_ACK_WINDOW: Final = 32

# How long the tail waits for a Gateway that is gone before it fails the session. Source: Credits.
GATEWAY_GRACE_S: Final = 2.0

# Most unacknowledged decode frames on an edge of one session. Source: Credits.
DECODE_WINDOW_FRAMES: Final = 1

# Amounts are counted in millionths of a credit. Source: Time, `earned_micros`.
MICROS_PER_CREDIT: Final = 1_000_000

# The highest port number. Source: RFC 9293, 3.1.
PORT_MAX: Final = 65535

"""Identifiers of sessions and of the edges between their stages.

Invariants: values are frozen and hashable. Random bytes come from the caller, so that tests can choose every session
id. Source: docs/wire.md, Addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE, MAX_STAGES, SESSION_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable


def new_session_id(random_bytes: Callable[[int], bytes]) -> bytes:
    """Draw a session id from `random_bytes`, which must be unpredictable in production (`secrets.token_bytes`)."""
    return random_bytes(SESSION_ID_BYTES)


def is_stage(stage: int) -> bool:
    """Tell if `stage` may name a member of a session: a stage of the route, or the Gateway."""
    return 0 <= stage < MAX_STAGES or stage == GATEWAY_STAGE


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """An edge of a session, from one stage to another. The Gateway counts as stage 127."""

    from_stage: int
    to_stage: int

    def reversed(self) -> Edge:
        """Return the edge in the other direction."""
        return Edge(self.to_stage, self.from_stage)

    def __str__(self) -> str:
        return f"{_stage_name(self.from_stage)}->{_stage_name(self.to_stage)}"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A session's id (16 bytes) and an epoch: the number, from 1, of the attempt to open the session."""

    session: bytes
    epoch: int

    def __str__(self) -> str:
        return f"{self.session.hex()[:12]}/{self.epoch}"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a message: its session, its epoch and its edge."""

    key: SessionKey
    edge: Edge

    def __str__(self) -> str:
        return f"{self.key} {self.edge}"


def _stage_name(stage: int) -> str:
    return "gateway" if stage == GATEWAY_STAGE else str(stage)

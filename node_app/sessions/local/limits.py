"""Limits how long a local request waits while the worker has no room for it, and how many requests may wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Deadlines and bounds for opening local sessions.

    Attributes:
        open_timeout_s: the worker must answer one request to open a session within this time.
        place_wait_s: how long a request waits for room on the worker; clients try again by themselves after a 429.
        place_poll_s: a waiting request asks the worker again at this interval, since no message says when there is
            room.
        waiting_max: the most requests that wait at once; further ones are refused at once.
    """

    open_timeout_s: float = 5.0
    place_wait_s: float = 5.0
    place_poll_s: float = 0.05
    waiting_max: int = 16

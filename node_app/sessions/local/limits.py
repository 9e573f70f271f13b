"""Limits how long a local request waits for a place on the worker, and how many requests may wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Deadlines and bounds of opening.

    Attributes:
        open_timeout_s: for the worker to open one session.
        place_wait_s: how long a request waits for a place; clients try again by themselves after a 429.
        place_poll_s: it tries again this often, since it is not told if a session of the site ends.
        waiting_max: requests that wait at once; more are refused straight away.
    """

    open_timeout_s: float = 5.0
    place_wait_s: float = 5.0
    place_poll_s: float = 0.05
    waiting_max: int = 16

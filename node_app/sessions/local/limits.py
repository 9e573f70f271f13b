"""How long a local request waits for a place on the worker, and how many may."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Deadlines and bounds of opening.

    Attributes:
        open_timeout_s: for the worker to open one session.
        place_wait_s: how long a request waits for a place; clients try again by themselves after a 429.
        place_poll_s: how often it asks: the site's sessions end without telling.
        waiting_max: requests that wait at once; more are refused straight away.
    """

    open_timeout_s: float = 5.0
    place_wait_s: float = 5.0
    place_poll_s: float = 0.05
    waiting_max: int = 16

"""The services that all generations share. `composition` makes the real ones; tests make simulators."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracker_site.gateway.limits import LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracker_site.gateway.ports import Ledger, RouteOpener
    from tracker_site.gateway.records import RecordStore


@dataclass(frozen=True, slots=True)
class Parts:
    """The services that all generations share. `clock_s` returns monotonic seconds."""

    routes: RouteOpener
    ledger: Ledger
    records: RecordStore
    limits: Limits = LIMITS
    clock_s: Callable[[], float] = time.monotonic

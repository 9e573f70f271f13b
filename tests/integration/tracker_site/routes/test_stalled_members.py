"""Members that stall on a ring of two workers leave everybody else's sessions their rate, directly and relayed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.tracker_site.relay.process import a_relay
from tests.integration.tracker_site.routes.stalled_ring import OTHERS, TAIL, Ring, a_ring

pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]

KEPT_MIN = 0.90
ROUNDS = 5
CONTROL_ROUNDS = 3
CARRIERS = ["direct", "relay"]


@contextlib.asynccontextmanager
async def ring_over(carrier: str, folder: Path) -> AsyncIterator[Ring]:
    async with a_relay() as relay, a_ring(folder, relay.url, carrier) as ring:
        assert {stage.carrier for other in ring.others for stage in other.route.stages} == {carrier}
        yield ring


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_stalled_members_leave_the_others_their_rate(tmp_path: Path, carrier: str) -> None:
    """At once: a reader that takes nothing, a tail that is frozen, a head that is frozen. Then the controls."""
    async with ring_over(carrier, tmp_path) as ring:
        stalled = await ring.compare(ring.stalled_members, ROUNDS)
        sharing = await ring.compare(ring.taking_part, CONTROL_ROUNDS)
        ring.nodes[TAIL].freeze()
        await ring.until_still()
        frozen = await ring.rates()
        ring.nodes[TAIL].resume()
    print(f"{carrier}, members that stall: {stalled.describe()}")
    print(f"{carrier}, control, a member that takes part: {sharing.describe()}")
    print(f"{carrier}, control, a shared worker that is frozen: {sum(frozen):.1f} tokens/s")
    assert stalled.kept() >= KEPT_MIN
    assert stalled.worst_kept() >= KEPT_MIN
    # The controls must fail the same bar: one more session takes its share, a frozen worker takes everything.
    assert sharing.kept() < KEPT_MIN
    assert sharing.kept() > KEPT_MIN * OTHERS / (OTHERS + 1)  # and no more than its share
    assert sum(frozen) < 1

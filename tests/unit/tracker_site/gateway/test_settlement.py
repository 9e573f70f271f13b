"""The bill, by how a generation ended."""

from __future__ import annotations

import pytest

from tests.simulators.fake_route import stages_of
from tracker_site.billing.pricing import Prices, Share
from tracker_site.gateway.settlement import Bill, Counts, Ending, settle_bill

PRICES = Prices(prompt_micros=1_000_000, completion_micros=10_000_000)
COUNTS = Counts(prompt_tokens=300, prefill_done=128, delivered_tokens=5)
STAGES = stages_of(4, [7, 8])


@pytest.mark.parametrize(
    ("ending", "charge_micros"),
    [(Ending.FINISHED, 300 + 50), (Ending.CANCELLED, 128 + 50), (Ending.FAILED, 50)],
)
def test_what_is_paid_for(ending: Ending, charge_micros: int) -> None:
    bill = settle_bill(ending, COUNTS, PRICES, STAGES)
    assert bill.charge_micros == charge_micros
    assert sum(share.micros for share in bill.shares) == charge_micros


def test_owners_earn_by_layers() -> None:
    bill = settle_bill(Ending.FINISHED, Counts(0, 0, 3), PRICES, stages_of(30, [7, 8, 7]))
    assert bill.shares == (Share(7, 20), Share(8, 10))


@pytest.mark.parametrize("ending", list(Ending))
def test_without_a_route_nothing_is_owed(ending: Ending) -> None:
    assert settle_bill(ending, COUNTS, PRICES, []) == Bill(0, ())

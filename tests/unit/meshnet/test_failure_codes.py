from __future__ import annotations

from meshnet.failure_codes import TITLES, FailureCode


def test_each_has_a_title() -> None:
    assert set(TITLES) == set(FailureCode)

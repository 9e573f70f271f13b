from __future__ import annotations

from meshnet.failure_codes import TITLES, FailureCode, title_of


def test_each_has_a_title() -> None:
    assert set(TITLES) == set(FailureCode)


def test_the_title_of_a_word_is_that_of_its_code_and_strangers_get_the_callers() -> None:
    assert title_of("kv_exhausted", "Route failed") == TITLES[FailureCode.KV_EXHAUSTED]
    assert title_of("worker_lost", "Route failed") == "Route failed"

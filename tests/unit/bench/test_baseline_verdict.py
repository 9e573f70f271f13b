"""The verdict of `make bench-baseline`: every way in which a comparison proves nothing is a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.baseline_verdict import MIB, ROWS_MIN, ArmFigures, failures, table
from tests.parity.divergence import Divergence


def of(mean: float, rows: int = ROWS_MIN) -> Divergence:
    return Divergence(rows=rows, total=mean * rows, largest=mean * 3)


LLAMA = ArmFigures("llama", (100.0, 90.0, 95.0), (20.0,), (200 * MIB,), (90 * MIB,), of(0.003), False)
TORCH = ArmFigures("torch", (10.0,), (200.0,), (700 * MIB, 600 * MIB), (500 * MIB, 400 * MIB), of(1e-9), True)
REFERENCE = replace(TORCH, name="reference", divergence=None)
ARMS = {"llama": LLAMA, "torch": TORCH, "reference": REFERENCE}
DAMAGED = of(0.8)


def test_a_good_run_passes() -> None:
    assert failures(ARMS, DAMAGED) == []


@pytest.mark.parametrize(
    ("arm", "divergence", "said"),
    [
        ("llama", of(0.06), "llama: a mean divergence of 0.06"),
        ("torch", of(0.001), "torch: a mean divergence of 0.001"),
        ("torch", of(1e-9, ROWS_MIN - 1), "torch: 95 rows compared"),
        ("llama", Divergence(), "llama: 0 rows compared"),
        ("llama", replace(of(0.001), not_finite=1), "llama: a mean divergence of nan"),
    ],
)
def test_logits_that_differ_or_prove_nothing_fail(arm: str, divergence: Divergence, said: str) -> None:
    found = failures(ARMS | {arm: replace(ARMS[arm], divergence=divergence)}, DAMAGED)
    assert any(line.startswith(said) for line in found), found


@pytest.mark.parametrize("damaged", [of(0.04), of(0.8, ROWS_MIN - 1), Divergence(), replace(of(0.8), not_finite=1)])
def test_a_control_that_passes_fails_the_run(damaged: Divergence) -> None:
    assert any("without a quarter" in line for line in failures(ARMS, damaged))


def test_nothing_compared_is_a_failure() -> None:
    assert failures({"reference": REFERENCE}, DAMAGED) == ["no logits were compared"]


def test_the_table_holds_medians_and_what_each_stage_holds() -> None:
    lines = list(table(ARMS))
    assert lines[2] == "| llama | 95.0 | 20 | 200 | 90 | 0.003 | 0 of 96 |"
    assert lines[3] == "| torch | 10.0 | 200 | 1,300 (700 + 600) | 900 (500 + 400) | 1e-09 | 0 of 96 |"
    assert lines[4].endswith(" |  |  |")

"""What `make bench-baseline` says of its arms: their figures as a table, and whether the run proves anything. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.parity.divergence import Divergence

ROWS_MIN: Final = 96
# In nats, over all rows. Float32 sums in another order; and llama.cpp's rows of 8 bits and its f16 cache.
SAME_MEAN_KL_MAX: Final = 1e-6
OTHER_MEAN_KL_MAX: Final = 0.05
MIB: Final = 2**20
COLUMNS: Final = (
    "runtime, file, stages",
    "tok/s",
    "first token, ms",
    "resident MiB (stages)",
    "of it weights",
    "mean KL, nats",
    "other arg max",
)


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """One arm's measurements.

    Attributes:
        name: runtime, file and stages, for people.
        tokens_per_s: one a round.
        first_token_ms: one a round.
        resident_bytes: of each stage's process, head first.
        weights_bytes: of each stage, as its worker reports them.
        divergence: of its logits from the reference's; None: it is not compared.
        is_same_arithmetic: it computes in float32 as the reference does.
    """

    name: str
    tokens_per_s: Sequence[float]
    first_token_ms: Sequence[float]
    resident_bytes: Sequence[int]
    weights_bytes: Sequence[int]
    divergence: Divergence | None
    is_same_arithmetic: bool

    def report(self) -> dict[str, object]:
        """For the last line."""
        return {
            "name": self.name,
            "tokens_per_s": round(median(self.tokens_per_s), 2),
            "first_token_ms": round(median(self.first_token_ms), 1),
            "resident_mib": [round(one / MIB, 1) for one in self.resident_bytes],
            "weights_mib": [round(one / MIB, 1) for one in self.weights_bytes],
            "divergence": None if self.divergence is None else self.divergence.report(),
        }


def failures(arms: Mapping[str, ArmFigures], damaged: Divergence) -> list[str]:
    """Everything that is wrong with the comparison of logits, for people; empty where all is well.

    Args:
        arms: by key.
        damaged: what the control found, which must not pass.
    """
    compared = {arm.name: arm for arm in arms.values() if arm.divergence is not None}
    said = [] if compared else ["no logits were compared"]
    for name, arm in compared.items():
        found = arm.divergence or Divergence()
        limit = SAME_MEAN_KL_MAX if arm.is_same_arithmetic else OTHER_MEAN_KL_MAX
        if found.rows < ROWS_MIN:
            said.append(f"{name}: {found.rows} rows compared, {ROWS_MIN} wanted")
        # Not `>`: what is not finite is NaN.
        if not found.mean <= limit:
            said.append(f"{name}: a mean divergence of {found.mean:.3g}, {limit:g} allowed")
    if damaged.rows < ROWS_MIN or not damaged.mean > OTHER_MEAN_KL_MAX:
        said.append(f"rows without a quarter of their elements pass: {damaged.mean:.3g} over {damaged.rows} rows")
    return said


def table(arms: Mapping[str, ArmFigures]) -> Iterator[str]:
    """The table of docs/benchmarks.md."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{' --- |' * len(COLUMNS)}"
    for arm in arms.values():
        resident, weights = (
            f"{sum(sizes) / MIB:,.0f}" + (f" ({' + '.join(f'{one / MIB:,.0f}' for one in sizes)})" if sizes[1:] else "")
            for sizes in (arm.resident_bytes, arm.weights_bytes)
        )
        kl, tokens = "", ""
        if arm.divergence is not None:
            kl, tokens = f"{arm.divergence.mean:.2g}", f"{arm.divergence.other_arg_max} of {arm.divergence.rows}"
        rate, first_ms = f"{median(arm.tokens_per_s):.1f}", f"{median(arm.first_token_ms):.0f}"
        yield f"| {arm.name} | {rate} | {first_ms} | {resident} | {weights} | {kl} | {tokens} |"

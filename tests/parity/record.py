"""What a run compares, what it found, and what counts as success. No process, no model: the verdict is tested alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.parity.architecture_counts import ArchitectureRecord, NativeRun, Records
from tests.parity.comparison import Comparison, TokenComparison
from tests.parity.noise_control import Control
from tests.parity.prompts import PROMPTS
from tests.simulators.tiny_models import TINY_MODELS


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run compares.

    Attributes:
        cuts: layer bounds of each route of workers.
        split_file_cuts: the same, loaded from a file of two parts.
        shipped_cuts: layer bounds of each route of shipped workers, whose tokens are compared.
        together: layer bounds of the route on which all prompts run at once.
        prompts: texts; the last one may be the long one.
        rows: tokens drawn, and so rows compared, for each prompt.
        carriers: of the seam, each with a site of its own; none leaves the whole stack out.
        rows_min: fewer rows compared are a failure.
        architectures: those whose tiny models are compared.
    """

    cuts: tuple[tuple[int, ...], ...]
    split_file_cuts: tuple[tuple[int, ...], ...]
    shipped_cuts: tuple[tuple[int, ...], ...]
    together: tuple[int, ...] | None
    prompts: tuple[str, ...]
    rows: int
    carriers: tuple[str, ...]
    rows_min: int
    architectures: tuple[str, ...]


EVERYTHING = Plan(
    cuts=((0, 15, 30), (0, 7, 30), (0, 1, 30), (0, 10, 20, 30), (0, 1, 29, 30)),
    split_file_cuts=((0, 13, 30),),
    shipped_cuts=((0, 15, 30), (0, 10, 20, 30)),
    together=(0, 15, 30),
    prompts=PROMPTS,
    rows=32,
    carriers=("direct", "relay"),
    rows_min=1000,
    architectures=tuple(model.architecture for model in TINY_MODELS),
)
ARCHITECTURES = Plan(
    cuts=(),
    split_file_cuts=(),
    shipped_cuts=(),
    together=None,
    prompts=(),
    rows=0,
    carriers=(),
    rows_min=0,
    architectures=EVERYTHING.architectures,
)
SHORT = Plan(
    cuts=((0, 7, 30),),
    split_file_cuts=(),
    shipped_cuts=((0, 7, 30),),
    together=None,
    prompts=PROMPTS[:2],
    rows=12,
    carriers=(),
    rows_min=24,
    architectures=(),
)


@dataclass(slots=True)
class Record:
    """What was found."""

    rows: Comparison = field(default_factory=Comparison)
    shipped: TokenComparison = field(default_factory=TokenComparison)
    together: Comparison = field(default_factory=Comparison)
    control: Control = field(default_factory=Control)
    cuts: list[str] = field(default_factory=list)
    carriers: list[str] = field(default_factory=list)
    stack_prompts: int = 0
    stack_mismatched: int = 0
    stack_together_mismatched: int = 0
    survivors: int = 0
    native: NativeRun | None = None
    architectures: Records = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The last line's fields."""
        return {
            "rows": self.rows.rows,
            "mismatched": self.rows.mismatched,
            "cuts": self.cuts,
            "shipped_tokens": self.shipped.tokens,
            "shipped_mismatched": self.shipped.mismatched,
            "together_rows": self.together.rows,
            "together_mismatched": self.together.mismatched,
            "together_tokens_differ": self.together.tokens_differ,
            "carriers": self.carriers,
            "stack_prompts": self.stack_prompts,
            "stack_mismatched": self.stack_mismatched,
            "stack_together_mismatched": self.stack_together_mismatched,
            "control_rows": self.control.noisy.rows,
            "control_mismatched": self.control.noisy.mismatched,
            "control_clean_mismatched": self.control.clean.mismatched,
            "survivors": self.survivors,
            "native_status": None if self.native is None else self.native.status,
            "native_failures": None if self.native is None else self.native.failures,
            "architectures": {name: record.checks for name, record in self.architectures.items()},
        }

    def is_good(self, plan: Plan) -> bool:
        """Whether everything that must be equal is, enough of it was compared, and the control was seen."""
        control_rows = (self.control.clean.rows, self.control.noisy.mismatched)
        compared_enough = (
            self.rows.rows >= plan.rows_min
            and self.shipped.tokens == len(plan.shipped_cuts) * len(plan.prompts) * plan.rows
            and self.stack_prompts == 2 * len(plan.prompts) * len(plan.carriers)
            and (all(control_rows) or not plan.cuts)
        )
        differing = self.rows.mismatched + self.shipped.mismatched + self.stack_mismatched
        differing += self.control.clean.mismatched + self.survivors
        architectures = [self.architectures.get(name, ArchitectureRecord()) for name in plan.architectures]
        are_equal = differing == 0 and all(record.is_good() for record in architectures)
        native_is_good = not plan.architectures or (self.native is not None and self.native.is_good())
        return compared_enough and are_equal and native_is_good

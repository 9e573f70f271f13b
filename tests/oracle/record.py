"""What was found at the seams of a model, and what of it counts as success. No engine: the verdict is tested alone.

`layers`: each layer from the rows that LlamaEngine had before it, so that an error is that layer's own. `chain`: from
the tokens on, so that errors add up as they do on a route. Invariant: a comparison without rows is a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.oracle.seam_errors import SeamErrors, Tolerance

WRONG_ROPE_BASE: Final = "wrong rope base"
LAYER_LEFT_OUT: Final = "layer left out"
CONTROLS: Final = (WRONG_ROPE_BASE, LAYER_LEFT_OUT)


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Of one layer, and of a chain of all."""

    layer: Tolerance
    chain: Tolerance


@dataclass(slots=True)
class OracleRecord:
    """What was found for one model. Lists have an entry for each layer; the last one's rows are logits."""

    quantisation: str
    tolerances: Tolerances
    layers: list[SeamErrors] = field(default_factory=list)
    chain: list[SeamErrors] = field(default_factory=list)
    controls: dict[str, list[SeamErrors]] = field(default_factory=dict)

    @property
    def controls_seen(self) -> int:
        """Controls that are beyond the chain's tolerance, as they must be."""
        return sum(not _all_within(self.controls.get(name, []), self.tolerances.chain) for name in CONTROLS)

    def is_good(self) -> bool:
        """Whether all seams are within their tolerance and every control was run and is not."""
        within = _all_within(self.layers, self.tolerances.layer) and _all_within(self.chain, self.tolerances.chain)
        were_run = all(any(seam.rows for seam in self.controls.get(name, [])) for name in CONTROLS)
        return within and were_run and self.controls_seen == len(CONTROLS)

    def as_json(self) -> dict[str, object]:
        """For the last line."""
        return {
            "quantisation": self.quantisation,
            "seams": len(self.layers),
            "rows": sum(seam.rows for seam in self.layers),
            "chain_rows": sum(seam.rows for seam in self.chain),
            "layers": _worst(self.layers),
            "chain": _worst(self.chain),
            "controls": {name: _worst(seams) for name, seams in self.controls.items()},
            "controls_seen": self.controls_seen,
            "good": self.is_good(),
        }


def _all_within(seams: Sequence[SeamErrors], tolerance: Tolerance) -> bool:
    return bool(seams) and all(seam.is_within(tolerance) for seam in seams)


def _worst(seams: Sequence[SeamErrors]) -> dict[str, float]:
    return {
        "cosine": round(min((seam.cosine for seam in seams), default=0.0), 6),
        "error": round(max((seam.error for seam in seams), default=0.0), 5),
        "not_finite": sum(seam.not_finite for seam in seams),
    }

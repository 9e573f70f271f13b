"""The facts of a request by which its route is planned.

Invariant: pure values; the caller has already bounded them by the model's context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from meshnet.artifact.model.cuts import wrong_cuts

# If a request allows more tokens, a plan is judged by this many: most answers end long before their limit.
EXPECTED_TOKENS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class RouteNeed:
    """The facts of one request that planning needs.

    Attributes:
        n_layers: number of layers of the whole model.
        prompt_tokens: number of prompt rows to compute.
        max_tokens: largest number of tokens to generate.
        is_exact: the result must equal the unsplit model's bit for bit, so all stages need one exact class.
        mixes_recipes: stages may have different recipes; never with `is_exact`.
        excluded_node_ids: nodes that have just refused or failed this request; no route may use them.
        legal_cuts: layers that a stage may begin with, beside layer 0; None if every layer is one.
        opened: number of stages that this process has open, by node id; the nodes' reports may not count them yet.
    """

    n_layers: int
    prompt_tokens: int
    max_tokens: int
    is_exact: bool = False
    mixes_recipes: bool = False
    excluded_node_ids: frozenset[str] = frozenset()
    legal_cuts: frozenset[int] | None = None
    opened: Mapping[str, int] = field(default_factory=dict)

    def allows_range(self, layer_begin: int, layer_end: int) -> bool:
        """Return True if a stage with these layers cuts the model only at legal cuts."""
        return not wrong_cuts((layer_begin, layer_end), self.n_layers, self.legal_cuts)

    @property
    def kv_cells(self) -> int:
        """Number of KV cells that each stage reserves at admission. Source: docs/wire.md, Closing and admission."""
        return self.prompt_tokens + self.max_tokens

    @property
    def expected_tokens(self) -> int:
        """Number of decode steps with which the planner computes the cost of a route."""
        return min(self.max_tokens, EXPECTED_TOKENS_MAX)

"""Checks that the boundary contracts of a route's opened stages fit the plan and each other.

Invariants: pure; a stage's contract is checked before rows are sent to the stage.
Source: docs/wire.md, What must match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.errors import RouteError
from meshnet.failure_codes import TITLES, FailureCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.v1 import session_pb2
    from tracker_site.routes.session.terms import RouteTerms


class ContractError(RouteError):
    """A stage's boundary contract does not fit the plan or the other stages.

    Attributes:
        stage: index of the stage that does not fit.
    """

    def __init__(self, stage: int, message: str) -> None:
        super().__init__(FailureCode.CONTRACT_MISMATCH, TITLES[FailureCode.CONTRACT_MISMATCH], message)
        self.stage = stage


def check_stage(terms: RouteTerms, stage: int, contract: session_pb2.BoundaryContract) -> None:
    """Compare the contract of an opened stage with the planned shard and the stage's place on the route.

    Raises:
        ContractError: if they do not fit.
    """
    shard = terms.plan.stages[stage].shard
    layers = (contract.layers.layer_begin, contract.layers.layer_end)
    _require(layers == (shard.layer_begin, shard.layer_end), stage, "opened other layers than the planned ones")
    _require(contract.n_layers == shard.n_layers, stage, "has a model of another depth")
    _require(contract.contract_digest == shard.contract_digest, stage, "has another contract digest")
    _require(contract.recipe == shard.recipe, stage, "has another recipe")
    is_head, is_tail = stage == 0, stage == terms.tail
    _require(is_head == (not contract.inputs), stage, "takes inputs that do not fit its place on the route")
    _require(is_tail == (not contract.outputs), stage, "gives outputs that do not fit its place on the route")
    if is_tail:
        fits = contract.vocab_size == terms.request.vocabulary_size
        _require(fits, stage, "has another vocabulary")


def check_seams(terms: RouteTerms, contracts: Sequence[session_pb2.BoundaryContract]) -> None:
    """Compare the contract of each opened stage with those of the stage before it and of the head.

    Raises:
        ContractError: if a stage needs other tensors or token ids than the stage before it gives; or if it has another
            context length than the head, or another recipe or exact class although the request needs equal ones.
    """
    first = contracts[0]
    for stage in range(1, len(contracts)):
        before, contract = contracts[stage - 1], contracts[stage]
        fits = list(before.outputs) == list(contract.inputs)
        _require(fits, stage, f"takes other tensors than stage {stage - 1} gives")
        has_ids = before.gives_token_ids or not contract.needs_token_ids
        _require(has_ids, stage, f"needs token ids, which stage {stage - 1} does not give")
        _require(contract.context_length == first.context_length, stage, "has another context length")
        if not terms.request.mixes_recipes:
            _require(contract.recipe == first.recipe, stage, "has another recipe")
        if terms.request.is_exact:
            _require(contract.exact_class == first.exact_class, stage, "has another exact class")


def _require(condition: bool, stage: int, message: str) -> None:
    if not condition:
        raise ContractError(stage, f"Stage {stage} {message}.")

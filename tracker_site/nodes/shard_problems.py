"""Finds loaded shards that routes cannot use, or cannot combine with others, and stores the reason in their rows.

Invariant: the stored reasons only explain. The planner decides which shards may share a route, and every stage compares
contracts again when it is opened. Source: docs/wire.md, What must match.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils import timezone

from tracker_site.catalog.models import Model
from tracker_site.nodes import notices
from tracker_site.nodes.models import REASON_CHARACTERS, LoadedShard
from tracker_site.nodes.notices import Notice

if TYPE_CHECKING:
    from tracker_site.catalog.known_model import KnownModel


@dataclass(frozen=True, slots=True)
class _Prevailing:
    """The boundary contract and recipe that most connected nodes have: one such shard, and the number of the nodes."""

    shard: LoadedShard
    nodes: int


def note_problems(artifact_digest: str) -> None:
    """Store for every shard of an artifact (digest in hex) on a connected node its problem, or that it has none.

    A shard's contract and recipe are compared with those that most connected nodes have. If several are equally
    frequent, those that were seen first count.
    """
    shards = _present_shards(artifact_digest)
    if not shards:
        return
    model = Model.known(artifact_digest)
    groups: defaultdict[tuple[str, str], list[LoadedShard]] = defaultdict(list)
    for shard in shards:
        groups[_agreement(shard, model)].append(shard)
    most = max(groups.values(), key=_weight)
    prevailing = _Prevailing(most[0], len({shard.node_id for shard in most}))
    for shard in shards:
        _set_problem(shard, _problem(shard, model, prevailing))


def note_problems_of(node_ids: list[str]) -> None:
    """Call `note_problems` for every artifact of which these nodes have loaded shards.

    Whether they are connected may change which contract most nodes have.
    """
    shards = LoadedShard.objects.filter(node_id__in=node_ids)
    for digest in shards.order_by().values_list("artifact_digest", flat=True).distinct():
        note_problems(digest)


def notice_for(node_id: str) -> Notice:
    """Return one notice for all stored problems of a node's shards; an empty notice if there are none."""
    found = LoadedShard.objects.filter(node_id=node_id).exclude(problem_code="").values_list("problem_code", "problem")
    return notices.notice_of([Notice(code, message) for code, message in found])


def _present_shards(artifact_digest: str) -> list[LoadedShard]:
    now = timezone.now()
    present = LoadedShard.objects.filter(artifact_digest=artifact_digest, node__lease_expires_at__gt=now)
    return list(present.exclude(node__channel_name="").order_by("first_seen_at", "pk"))


def _agreement(shard: LoadedShard, model: KnownModel | None) -> tuple[str, str]:
    """Return the contract digest and recipe that shards of a route must share; recipe "" if recipes may be mixed."""
    is_mixed = model is not None and model.allows_mixed_recipes
    return shard.contract_digest, "" if is_mixed else shard.identity.recipe


def _weight(shards: list[LoadedShard]) -> tuple[int, float]:
    return len({shard.node_id for shard in shards}), -shards[0].first_seen_at.timestamp()


def _problem(shard: LoadedShard, model: KnownModel | None, prevailing: _Prevailing) -> Notice:
    if model is None:
        return notices.artifact_unknown(shard.artifact_digest)
    identity = shard.identity
    found, expected = (identity.n_layers, identity.vocab_size), (model.n_layers, model.vocab_size)
    if found != expected:
        return notices.layers_differ(model.name, found, expected)
    if not model.is_listed:
        return notices.model_not_listed(model.name)
    wrong = model.wrong_cuts(shard.layer_begin, shard.layer_end)
    if wrong:
        return notices.illegal_cut(model.name, wrong, model.legal_cuts or [])
    is_prevailing = _agreement(shard, model) == _agreement(prevailing.shard, model)
    return Notice() if is_prevailing else _mismatch(shard, prevailing)


def _mismatch(shard: LoadedShard, prevailing: _Prevailing) -> Notice:
    own, other = shard.identity, prevailing.shard.identity
    if own.contract_digest == other.contract_digest:
        return notices.recipe_mismatch(own.recipe, other.recipe, prevailing.nodes)
    differing = []
    if own.context_length != other.context_length:
        differing.append(f"context {own.context_length}, theirs {other.context_length}")
    return notices.contract_mismatch(
        shard.contract_digest, prevailing.shard.contract_digest, prevailing.nodes, differing
    )


def _set_problem(shard: LoadedShard, problem: Notice) -> None:
    message = problem.message[:REASON_CHARACTERS]
    if (shard.problem_code, shard.problem) != (problem.code, message):
        LoadedShard.objects.filter(pk=shard.pk).update(problem_code=problem.code, problem=message)

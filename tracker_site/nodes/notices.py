"""Notices to a volunteer: routes cannot use a shard of the node, or cannot combine it with other nodes' shards.

Invariants: pure; a code is never renamed or reused. A message tells the volunteer how to mend the problem. An empty
code means that nothing is wrong now. Source: control.proto, SiteNotice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from meshnet.artifact.model.cuts import cuts_beside

MESSAGE_CHARACTERS: Final = 300
# Hex digits of a digest that a message shows.
SHOWN_DIGITS: Final = 12


class NoticeCode(StrEnum):
    """The problem that a notice is about, as `SiteNotice.code` names it on the wire."""

    ARTIFACT_UNKNOWN = "artifact_unknown"
    MODEL_NOT_LISTED = "model_not_listed"
    LAYERS_DIFFER = "layers_differ"
    ILLEGAL_CUT = "illegal_cut"
    CONTRACT_MISMATCH = "contract_mismatch"


LABELS: Final[dict[str, str]] = {
    NoticeCode.ARTIFACT_UNKNOWN: "no model's file",
    NoticeCode.MODEL_NOT_LISTED: "model not offered",
    NoticeCode.LAYERS_DIFFER: "not the model's layers",
    NoticeCode.ILLEGAL_CUT: "cut where it cannot be",
    NoticeCode.CONTRACT_MISMATCH: "contract differs",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice to a volunteer about a problem of the node's shards. If `code` is empty, nothing is wrong."""

    code: str = ""
    message: str = ""


def artifact_unknown(artifact_digest: str) -> Notice:
    """Return the notice that no model of the site has the artifact digest (hex) of the node's file."""
    message = (
        f"the file's digest ({artifact_digest[:SHOWN_DIGITS]}...) is not that of any model of this site; it may be "
        "damaged, incomplete or another quantisation. Fetch the site's own file, or ask the site to offer this one"
    )
    return Notice(NoticeCode.ARTIFACT_UNKNOWN, message)


def model_not_listed(name: str) -> Notice:
    """Return the notice that the site knows the model but does not offer it."""
    message = f"this site does not offer {name} at present; serve another of its models"
    return Notice(NoticeCode.MODEL_NOT_LISTED, message)


def layers_differ(name: str, found: tuple[int, int], expected: tuple[int, int]) -> Notice:
    """Return the notice that (n_layers, vocab_size) of the node's file is `found`, but of the model `expected`."""
    message = (
        f"the node reads {found[0]} layers and {found[1]} tokens from its file, the site's {name} has {expected[0]} "
        f"and {expected[1]}; update the node's software"
    )
    return Notice(NoticeCode.LAYERS_DIFFER, message)


def illegal_cut(name: str, wrong: Sequence[int], legal: Sequence[int]) -> Notice:
    """Return the notice that the node's shard begins or ends at a layer at which the model may not be cut.

    Args:
        name: the model's name.
        wrong: those ends of the shard.
        legal: the model's legal cuts.
    """
    cuts = " and ".join(f"{cut - 1} and {cut}" for cut in wrong)
    beside = sorted({one for cut in wrong for one in cuts_beside(cut, legal)})
    hint = f"choose --layers that begin and end at {', '.join(map(str, beside))}" if beside else "serve the whole model"
    return Notice(
        NoticeCode.ILLEGAL_CUT, f"{name} cannot be cut between layers {cuts}: no route uses this part; {hint}"
    )


def contract_mismatch(contract_digest: str, other_digest: str, others: int, differing: Sequence[str]) -> Notice:
    """Return the notice that a shard's boundary contract differs from that of most nodes.

    Args:
        contract_digest: digest (hex) of the shard's contract.
        other_digest: digest (hex) of the contract that most nodes have.
        others: how many nodes have that contract.
        differing: the known differences, in words.
    """
    message = (
        f"contract {contract_digest[:SHOWN_DIGITS]} differs from {other_digest[:SHOWN_DIGITS]} of {others} other "
        "node(s); it cannot share a route with them"
    )
    hint = "; ".join(differing) or "start this node with the same options and software as they have"
    return Notice(NoticeCode.CONTRACT_MISMATCH, f"{message} ({hint})")


def recipe_mismatch(recipe: str, other_recipe: str, others: int) -> Notice:
    """Return the notice that most nodes (`others` of them) have another recipe, and the model allows no mix."""
    message = (
        f"this node computes as {recipe or 'no named engine'} and {others} other node(s) as "
        f"{other_recipe or 'no named engine'}, which this site does not mix on a route; start it with their worker"
    )
    return Notice(NoticeCode.CONTRACT_MISMATCH, message)


def notice_of(problems: Sequence[Notice]) -> Notice:
    """Join the problems of a node's shards into one notice, with the code of the first; empty if there are none."""
    messages = dict.fromkeys(problem.message for problem in problems if problem.code)
    if not messages:
        return Notice()
    code = next(problem.code for problem in problems if problem.code)
    return Notice(code, "; ".join(messages)[:MESSAGE_CHARACTERS])

"""Notices to a volunteer about a node whose shards routes cannot use, or cannot combine with others.

Invariants: pure; a code is never renamed or reused. A message says what the volunteer can do. An empty code means that
nothing is wrong, or no longer. Source: control.proto, SiteNotice.
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
    """Values of `SiteNotice.code`."""

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
    """One notice. If it is empty, nothing is wrong."""

    code: str = ""
    message: str = ""


def artifact_unknown(artifact_digest: str) -> Notice:
    """Return the notice that no model of the site has this digest (hex)."""
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
    """Return the notice that the node's file has another `(n_layers, vocab_size)` than the model."""
    message = (
        f"the node reads {found[0]} layers and {found[1]} tokens from its file, the site's {name} has {expected[0]} "
        f"and {expected[1]}; update the node's software"
    )
    return Notice(NoticeCode.LAYERS_DIFFER, message)


def illegal_cut(name: str, wrong: Sequence[int], legal: Sequence[int]) -> Notice:
    """Return the notice that the node's layers begin or end at a layer at which the model may not be cut."""
    cuts = " and ".join(f"{cut - 1} and {cut}" for cut in wrong)
    beside = sorted({one for cut in wrong for one in cuts_beside(cut, legal)})
    hint = f"choose --layers that begin and end at {', '.join(map(str, beside))}" if beside else "serve the whole model"
    return Notice(
        NoticeCode.ILLEGAL_CUT, f"{name} cannot be cut between layers {cuts}: no route uses this part; {hint}"
    )


def contract_mismatch(contract_digest: str, other_digest: str, others: int, differing: Sequence[str]) -> Notice:
    """Return the notice that most nodes (`others`) have another contract; `differing` lists the known differences."""
    message = (
        f"contract {contract_digest[:SHOWN_DIGITS]} differs from {other_digest[:SHOWN_DIGITS]} of {others} other "
        "node(s); it cannot share a route with them"
    )
    hint = "; ".join(differing) or "start this node with the same options and software as they have"
    return Notice(NoticeCode.CONTRACT_MISMATCH, f"{message} ({hint})")


def recipe_mismatch(recipe: str, other_recipe: str, others: int) -> Notice:
    """Return the notice that most nodes (`others`) compute by another recipe, and the model allows no mixing."""
    message = (
        f"this node computes as {recipe or 'no named engine'} and {others} other node(s) as "
        f"{other_recipe or 'no named engine'}, which this site does not mix on a route; start it with their worker"
    )
    return Notice(NoticeCode.CONTRACT_MISMATCH, message)


def notice_of(problems: Sequence[Notice]) -> Notice:
    """Return one notice for all problems of a node's shards, with the code of the first."""
    messages = dict.fromkeys(problem.message for problem in problems if problem.code)
    if not messages:
        return Notice()
    code = next(problem.code for problem in problems if problem.code)
    return Notice(code, "; ".join(messages)[:MESSAGE_CHARACTERS])

"""Tells at which layers a model may be cut.

A cut `c` divides the layers into `[0, c)` and `[c, n)`.

Invariant: a cut `c` is legal only if the layers from `c` on are known to need nothing of the earlier ones but hidden
rows. If nobody has checked an architecture, it has no legal cut, and its models are served whole or not at all. Source:
the pinned llama.cpp's src/models; docs/models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.artifact.model.architectures import ARCHITECTURES, CutRule
from meshnet.artifact.model.hparams import Hparams
from meshnet.artifact.model.indexer import compressed_uses, latent_uses

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from meshnet.artifact.gguf import GgufHeader


_USES: Final[Mapping[str, Callable[[Hparams], Sequence[bool | None]]]] = {
    "deepseek4": compressed_uses,
    "glm-dsa": latent_uses,
}


@dataclass(frozen=True, slots=True)
class LegalCuts:
    """The layers at which a model may be cut.

    Attributes:
        rule: the rule that decided them.
        cuts: the layers, ascending; layer 0 is not listed.
    """

    rule: CutRule
    cuts: tuple[int, ...]

    def wrong_cut(self, layer_begin: int, layer_end: int, n_layers: int) -> int | None:
        """Return the first of the two ends at which the model may not be cut; None if it may be cut at both."""
        return next(iter(wrong_cuts((layer_begin, layer_end), n_layers, self.cuts)), None)

    def explain(self, cut: int) -> str:
        """Return a sentence for an error: the reason why `cut` is refused, and the nearest legal cuts."""
        beside = " and ".join(str(one) for one in cuts_beside(cut, self.cuts))
        hint = f"; the legal cuts beside it are {beside}" if beside else "; it is served whole"
        return f"the model may not be cut between layers {cut - 1} and {cut} ({self.rule}){hint}"


def wrong_cuts(ends: Iterable[int], n_layers: int, legal: Collection[int] | None) -> list[int]:
    """Return those of `ends` at which the model may not be cut, in the order given.

    Args:
        ends: layers at which ranges begin or end.
        n_layers: layers of the whole model; 0 and `n_layers` are always allowed.
        legal: layers at which a range may begin, besides layer 0; if None, every layer is allowed.
    """
    if legal is None:
        return []
    return [end for end in ends if end not in legal and end not in {0, n_layers}]


def cuts_beside(cut: int, legal: Sequence[int]) -> list[int]:
    """Return the nearest legal cut below `cut` and the nearest above it, if there are any; `legal` is ascending."""
    below, above = [one for one in legal if one < cut], [one for one in legal if one > cut]
    return below[-1:] + above[:1]


def legal_cuts(header: GgufHeader) -> LegalCuts:
    """Return the layers at which the model may be cut.

    Raises:
        ArtifactError: `bad_metadata` if a value that decides the cuts is wrong.
    """
    known = ARCHITECTURES.get(header.architecture)
    rule = CutRule.UNKNOWN if known is None else known.cut_rule
    every = tuple(range(1, header.n_layers))
    match rule:
        case CutRule.EVERY:
            return LegalCuts(rule, every)
        case CutRule.UNKNOWN:
            return LegalCuts(rule, ())
        case CutRule.INDEXER:
            uses = _USES[header.architecture](Hparams(header))
            cuts = tuple(cut for cut in every if _first_use(uses, cut) is not False)
            return LegalCuts(CutRule.EVERY if cuts == every else rule, cuts)


def _first_use(uses: Sequence[bool | None], cut: int) -> bool | None:
    """Look at the first layer from `cut` on that needs an indexer selection.

    Return True if it makes the selection itself, False if it reuses an earlier one, None if there is no such layer.
    """
    return next((use for use in uses[cut:] if use is not None), None)

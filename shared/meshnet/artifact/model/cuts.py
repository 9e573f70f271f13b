"""Tells at which layers a model may be cut.

A cut `c` divides the layers into `[0, c)` and `[c, n)`.

Invariant: a cut is legal only if the architecture is known to hand nothing but hidden rows from one layer to the next.
If nobody has checked an architecture, it has no legal cut, and its models are served whole or not at all. Source: the
pinned tree's src/models; docs/models.
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
    """The layers at which a range may begin, in ascending order and without layer 0, and the reason."""

    rule: CutRule
    cuts: tuple[int, ...]

    def wrong_cut(self, layer_begin: int, layer_end: int, n_layers: int) -> int | None:
        """Return the first end of the range that is not a legal cut, or None if both ends are legal."""
        return next(iter(wrong_cuts((layer_begin, layer_end), n_layers, self.cuts)), None)

    def explain(self, cut: int) -> str:
        """Return a sentence for engineers: why `cut` is refused, and the legal cuts beside it."""
        beside = " and ".join(str(one) for one in cuts_beside(cut, self.cuts))
        hint = f"; the legal cuts beside it are {beside}" if beside else "; it is served whole"
        return f"the model may not be cut between layers {cut - 1} and {cut} ({self.rule}){hint}"


def wrong_cuts(ends: Iterable[int], n_layers: int, legal: Collection[int] | None) -> list[int]:
    """Return the ends of ranges at which the model may not be cut, in the order given.

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
        ArtifactError: `bad_metadata` if the metadata that decides it is wrong.
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
    """Tell if the first layer from `cut` on that needs a selection makes its own; None if no layer needs one."""
    return next((use for use in uses[cut:] if use is not None), None)

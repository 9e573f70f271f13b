"""The values that the Gateway and a route exchange: the request, the opened stages and the error.

Invariant: frozen values; prompt tokens never appear in a `repr`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meshnet.errors import RouteError
from meshnet.frame import Codec

if TYPE_CHECKING:
    from meshnet.openai.specification import SamplingSpec


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """The facts of one generation that a route needs.

    Attributes:
        artifact_digest: SHA-256 over the model's files, 32 bytes.
        n_layers: number of layers of the whole model.
        max_tokens: largest number of tokens to generate.
        sampling: how tokens are drawn; its seed is set.
        end_tokens: ids that end the generation.
        is_exact: the result must equal the unsplit model's bit for bit.
        legal_cuts: layers that a stage may begin with, beside layer 0; None if every layer is one.
        allows_mixed_recipes: stages may have different recipes, unless the route is exact.
        coarsest_codec: the least faithful codec that may pack rows between stages.
    """

    artifact_digest: bytes
    n_layers: int
    prompt_tokens: tuple[int, ...] = field(repr=False)
    max_tokens: int
    sampling: SamplingSpec
    end_tokens: tuple[int, ...]
    vocabulary_size: int
    is_exact: bool = False
    coarsest_codec: Codec = Codec.RAW
    legal_cuts: frozenset[int] | None = None
    allows_mixed_recipes: bool = False

    @property
    def mixes_recipes(self) -> bool:
        """Whether stages with different recipes may serve this request together."""
        return self.allows_mixed_recipes and not self.is_exact


@dataclass(frozen=True, slots=True)
class RouteStage:
    """One stage of an open route, with the facts that clients and the bill need.

    Attributes:
        carrier: carrier of its incoming rows, or of the tokens to the head ("relay", "direct", "local").
        seam_bytes_per_token: bytes of the packed row that it hands to the next stage; 0 on the tail.
        seam_codec: codec of that row ("raw", "bf16", "q8_0"); empty on the tail.
        recipe: engine and arithmetic; empty if the node does not say.
    """

    node_id: str
    node_name: str
    owner_id: int
    layer_begin: int
    layer_end: int
    carrier: str
    seam_bytes_per_token: int = 0
    seam_codec: str = ""
    recipe: str = ""


class RouteFailedError(RouteError):
    """A route failed or could not be opened. `stage` is the stage at fault; None if no stage is."""

    def __init__(self, code: str, title: str, message: str, stage: int | None = None) -> None:
        super().__init__(code, title, message)
        self.stage = stage

"""What a generation needs from the rest of the site, and nothing more.

Invariant: the gateway decides when a route opens and closes and when a hold is placed and settled; how is behind these.
Tests put a route fed from the FakeEngine's arithmetic here, so that no node is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from meshnet.frame import Codec

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator, Sequence

    from meshnet.generation.progress import RouteEvent
    from tracker_site.billing.pricing import Prices, Share
    from tracker_site.routes.planning.request import RouteRequest, RouteStage


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks and pays."""

    user_id: int


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model of the catalog, as far as a generation is concerned.

    Attributes:
        artifact_digest: SHA-256 over the model's files.
        vocabulary_path: of the vocab-only GGUF on the site's disk.
        chat_template: empty: the file's own.
        created_s: Unix time of import.
        legal_cuts: layers that a stage may begin with, beside the first; None: any.
        coarsest_codec: rows between stages may be packed by it, and by all that are more faithful.
        allows_mixed_recipes: stages may compute differently, never on an exact route.
    """

    name: str
    artifact_digest: bytes
    architecture: str
    n_layers: int
    context_length: int
    vocabulary_path: str
    chat_template: str
    prices: Prices
    created_s: int
    coarsest_codec: Codec = Codec.RAW
    legal_cuts: frozenset[int] | None = None
    allows_mixed_recipes: bool = False


class OpenRoute(Protocol):
    """A route whose stages are open."""

    @property
    def stages(self) -> Sequence[RouteStage]:
        """Head first."""

    def events(self) -> AsyncIterator[RouteEvent]:
        """Everything that happens, once; ends after the token that carries a finish. Raises `RouteError`."""

    def acknowledge(self, index: int) -> None:
        """The client has taken every token up to `index`; lets the tail go on. Never blocks."""

    async def close(self, reason: str) -> None:
        """End the session on every stage. Idempotent."""


class RouteOpener(Protocol):
    """Plans and opens routes."""

    async def warm_up(self) -> None:
        """Connect to what every route goes through. Raises `RouteError` where it is away."""

    async def open_route(self, request: RouteRequest) -> OpenRoute:
        """Raises `RouteError`; on cancellation every stage that was opened is closed again."""

    async def close(self) -> None:
        """Close what is still open and everything behind it. Idempotent."""


class Ledger(Protocol):
    """Holds on users' accounts, in micro-credits."""

    async def place(self, user_id: int, amount_micros: int, generation_id: str) -> uuid.UUID:
        """Reserve; returns the hold's id. Raises `LedgerError`."""

    async def settle(self, hold_id: uuid.UUID, charge_micros: int, shares: Sequence[Share]) -> None:
        """Charge at most what was held, pay the nodes' owners, free the rest. Idempotent. Raises `LedgerError`."""


class ModelSource(Protocol):
    """The catalog."""

    async def find(self, name: str) -> ServedModel | None:
        """The listed model of that name."""

    async def all_listed(self) -> list[ServedModel]:
        """Every listed model, by name."""

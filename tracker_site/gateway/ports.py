"""Interfaces through which a generation uses the rest of the site.

Invariant: the gateway decides when a route opens and closes and when a hold is placed and settled; the implementations
of these interfaces decide how. Tests use an implementation whose route computes the same as FakeEngine, the test
engine, so that they need no node.
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
    """The user who sends a request and pays for it."""

    user_id: int


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The facts about an offered model that a generation needs.

    Attributes:
        artifact_digest: SHA-256 over the model's files.
        vocabulary_path: the vocabulary-only GGUF file on the site's disk.
        chat_template: the Jinja template; if it is empty, the template in the GGUF file is used.
        created_s: Unix time at which the model was added to the catalogue.
        legal_cuts: layers other than 0 that a stage may begin with; None means that any layer may.
        coarsest_codec: the coarsest codec that may pack rows between stages; more exact codecs are allowed too.
        allows_mixed_recipes: whether stages of different recipes may share a route, unless the route is exact.
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
        """The stages in route order, the head first."""

    def events(self) -> AsyncIterator[RouteEvent]:
        """Yield the route's events, once; end after the token with the finish reason.

        Raises:
            RouteError: the route failed.
        """

    def acknowledge(self, index: int) -> None:
        """Tell the tail that the client has read every token up to and including `index`. Never blocks."""

    async def close(self, reason: str) -> None:
        """End the session on every stage. Idempotent."""


class RouteOpener(Protocol):
    """Plans and opens routes."""

    async def warm_up(self) -> None:
        """Connect to the relay, which every route uses.

        Raises:
            RouteError: the relay cannot be reached.
        """

    async def open_route(self, request: RouteRequest) -> OpenRoute:
        """Plan a route and open all its stages; if the call is cancelled, close those that were opened.

        Raises:
            RouteError: there is no route, or a stage could not be opened.
        """

    async def close(self) -> None:
        """Close all open routes and the connection to the relay. Idempotent."""


class Ledger(Protocol):
    """Places and settles holds on users' accounts. Amounts are in micro-credits."""

    async def place(self, user_id: int, amount_micros: int, generation_id: str) -> uuid.UUID:
        """Set an amount aside and return the hold's id.

        Raises:
            LedgerError: the user has too few credits, or the ledger did not answer.
        """

    async def settle(self, hold_id: uuid.UUID, charge_micros: int, shares: Sequence[Share]) -> None:
        """Charge at most the held amount, pay the nodes' owners and return the rest to the user. Idempotent.

        Raises:
            LedgerError: the amounts do not fit the hold, or the ledger did not answer.
        """


class ModelSource(Protocol):
    """Finds the models that the site offers."""

    async def find(self, name: str) -> ServedModel | None:
        """Return the offered model with this name; None if there is none."""

    async def all_listed(self) -> list[ServedModel]:
        """Return all offered models, ordered by name."""

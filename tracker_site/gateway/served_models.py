"""Implements the gateway's `ModelSource` with the catalogue."""

from __future__ import annotations

from meshnet.frame import Codec
from tracker_site import database
from tracker_site.billing.pricing import Prices
from tracker_site.catalog.models import Model
from tracker_site.gateway.ports import ServedModel


class CatalogModels:
    """Reads the catalogue at every request, so that changed prices and listings take effect at once."""

    async def find(self, name: str) -> ServedModel | None:
        """Return the offered model with this name; None if there is none."""
        row = await database.read(Model.listed, name)
        return None if row is None else _served(row)

    async def all_listed(self) -> list[ServedModel]:
        """Return all offered models, ordered by name."""
        return [_served(row) for row in await database.read(_listed)]


def _listed() -> list[Model]:
    return list(Model.objects.filter(is_listed=True))


def _served(row: Model) -> ServedModel:
    return ServedModel(
        name=row.name,
        artifact_digest=row.digest,
        architecture=row.architecture,
        n_layers=row.n_layers,
        context_length=row.context_length,
        vocabulary_path=str(row.vocabulary_path),
        chat_template=row.chat_template,
        prices=Prices(prompt_micros=row.prompt_micros, completion_micros=row.completion_micros),
        created_s=int(row.created_at.timestamp()),
        coarsest_codec=Codec[row.coarsest_codec.upper()],
        legal_cuts=None if row.legal_cuts is None else frozenset(row.legal_cuts),
        allows_mixed_recipes=row.allows_mixed_recipes,
    )

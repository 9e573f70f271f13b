"""The error of the catalogue."""

from __future__ import annotations

from meshnet.errors import MeshnetError


class CatalogError(MeshnetError):
    """What was to be taken in was not."""

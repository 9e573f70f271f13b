"""The error of a failed import into the catalogue."""

from __future__ import annotations

from meshnet.errors import MeshnetError


class CatalogError(MeshnetError):
    """A file could not be imported into the catalogue."""

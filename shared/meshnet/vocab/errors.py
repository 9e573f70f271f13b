"""Why text could not be turned into tokens."""

from __future__ import annotations

from meshnet.errors import MeshnetError


class VocabularyError(MeshnetError):
    """Text, a template or a vocabulary is not usable: refuse the request (or the import), change nothing."""

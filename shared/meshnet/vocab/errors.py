"""The error of text that cannot be turned into tokens."""

from __future__ import annotations

from meshnet.errors import MeshnetError


class VocabularyError(MeshnetError):
    """A text, a template or a vocabulary cannot be used: refuse the request (or the import) and change nothing."""

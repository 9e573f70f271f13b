"""The error that is raised if text cannot be turned into tokens."""

from __future__ import annotations

from meshnet.errors import MeshnetError


class VocabularyError(MeshnetError):
    """A text, chat template or vocabulary cannot be used: refuse the request or the model, and change nothing."""

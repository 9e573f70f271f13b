"""Batch shapes that the unsplit model and the routes have in common, so that their bits can be compared."""

from typing import Final

CHUNK_ROWS: Final = 128
CONTEXT_LENGTH: Final = 2048

"""Turns the bytes of tokens into text; one character may be spread over several tokens.

Invariant: for any split of the bytes, the returned texts together equal the text of all bytes decoded at once with
replacement characters.
"""

from __future__ import annotations

import codecs


class Utf8Decoder:
    """Decodes bytes as they come. An incomplete character waits for the rest of its bytes."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @property
    def is_pending(self) -> bool:
        """Tell if a character has begun but is not complete."""
        return bool(self._decoder.getstate()[0])

    def push(self, data: bytes) -> str:
        """Take more bytes; return the characters that are complete now."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return the text of an incomplete character at the end, and reset the decoder."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text

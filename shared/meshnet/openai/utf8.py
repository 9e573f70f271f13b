"""Text out of token bytes, where one character may be spread over several tokens.

Invariant: the concatenation of everything returned equals decoding all bytes at once with replacement characters, for
any split of the bytes.
"""

from __future__ import annotations

import codecs


class Utf8Decoder:
    """Decodes bytes as they come; incomplete characters wait for their rest."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @property
    def is_pending(self) -> bool:
        """Whether a character has begun and is not complete."""
        return bool(self._decoder.getstate()[0])

    def push(self, data: bytes) -> str:
        """Take more bytes; return the characters that are complete now."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return what an incomplete character at the end decodes to; the decoder starts afresh."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text

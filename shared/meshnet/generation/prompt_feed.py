"""Sends the prompt to the head in chunks, as many at once as the head's window allows.

Invariants: pure. Chunks are consecutive and cover the prompt once. Only the last chunk is marked as the prompt's end,
and only it asks for logits, of its last row. Source: docs/wire.md, Frames and Credits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import Frame, Phase
from meshnet.session import SendingEdge

if TYPE_CHECKING:
    from meshnet.frame import Ack
    from meshnet.generation.chunking import Chunking
    from meshnet.ids import SessionKey


class PromptFeed:
    """Feeds one prompt. `budget_ms` is the time for one chunk on the whole route."""

    def __init__(self, key: SessionKey, prompt_tokens: tuple[int, ...], chunking: Chunking, budget_ms: int) -> None:
        self._key = key
        self._prompt_tokens = prompt_tokens
        self._chunk_rows = chunking.rows
        self._budget_ms = budget_ms
        self._edge = SendingEdge(chunking.windows[0])
        self._sent = 0

    @property
    def is_sent(self) -> bool:
        """Tell if the whole prompt has been sent."""
        return self._sent == len(self._prompt_tokens)

    def acknowledge(self, ack: Ack) -> int:
        """Take the head's acknowledgement of computed chunks; return how many it newly acknowledges.

        Raises:
            MessageError: it acknowledges a chunk that was never sent.
        """
        return self._edge.acknowledge(ack)

    def take(self) -> list[Frame]:
        """Return the chunks that may be sent now."""
        frames = []
        while not self.is_sent and self._edge.has_credit():
            frames.append(self._next())
        return frames

    def close(self) -> None:
        """Send nothing more. Idempotent."""
        self._edge.close()

    def _next(self) -> Frame:
        begin = self._sent
        rows = self._prompt_tokens[begin : begin + self._chunk_rows]
        self._sent += len(rows)
        return Frame(
            session=self._key.session,
            epoch=self._key.epoch,
            from_stage=GATEWAY_STAGE,
            to_stage=0,
            seq=self._edge.send(),
            phase=Phase.PREFILL,
            position=begin,
            rows=len(rows),
            prompt_end=self.is_sent,
            token_ids=rows,
            logits_rows=(len(rows) - 1,) if self.is_sent else (),
            budget_ms=self._budget_ms,
        )

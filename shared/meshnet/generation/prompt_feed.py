"""Sends the prompt to the head in chunks, as many at once as the head's window allows.

Invariants: pure. Chunks are consecutive and cover the prompt once. Only the last chunk is marked as the prompt's end,
and only the last chunk asks for logits: those of its last row. Source: docs/wire.md, Frames and Credits.
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
    """Cuts one prompt into frames for the head. `budget_ms` is the time that the whole route may take for a chunk."""

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
        """Take the head's acknowledgement of chunks that it has computed; return how many are newly acknowledged.

        Raises:
            MessageError: `malformed` if the head acknowledges a chunk that was never sent.
        """
        return self._edge.acknowledge(ack)

    def take(self) -> list[Frame]:
        """Return the frames that the head's window allows to be sent now; they count as sent."""
        frames = []
        while not self.is_sent and self._edge.has_credit():
            frames.append(self._next())
        return frames

    def close(self) -> None:
        """Send no more chunks, and ignore later acknowledgements. Idempotent."""
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
